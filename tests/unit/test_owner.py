"""What stands in an owner's id: what is made is read, in Python and in Lua."""

from __future__ import annotations

import itertools

import pytest

from aiolock.owner import SEVERAL, STEP, TASK, came_at, compose, is_owner, manager_of, own_part

MANAGER = "0123456789abcdef" * 2
EACH = list(itertools.product(("", TASK, SEVERAL), (1, 4711), (0, 1, 100), (0, 1500)))


@pytest.mark.parametrize(("mark", "number", "priority", "most_ms"), EACH)
def test_what_is_made_is_read(mark: str, number: int, priority: int, most_ms: int) -> None:
    """Breaks if `compose` says something that `_NUMBER` does not know."""
    owner = compose(MANAGER, mark, number, priority, most_ms)
    assert is_owner(owner)
    assert manager_of(owner) == MANAGER
    assert own_part(owner).startswith(f"{mark}{number}")
    assert came_at(owner, 10.0**15) == 10**15 + priority * STEP * 10**6
