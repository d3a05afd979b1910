"""What nests in one task: what README.md says of two objects of one name."""

from __future__ import annotations

import pytest

from aiolock import AcquireTimeout, LockManager


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
async def test_two_objects_of_one_name_nest(locks: LockManager, kind: str) -> None:
    async with getattr(locks, kind)("order:42") as outer, getattr(locks, kind)("order:42") as inner:
        assert inner.depth == 2
        assert inner.fence == outer.fence


async def test_a_semaphore_of_one_does_not(locks: LockManager) -> None:
    async with locks.semaphore("order:42", 1):
        with pytest.raises(AcquireTimeout):
            await locks.semaphore("order:42", 1).acquire(timeout=0)
