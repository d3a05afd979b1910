"""A hundred plans, each drawn from its seed: no promise is broken. `make simulate` runs more."""

from __future__ import annotations

import pytest

from .drawing import draw
from .report import explain
from .run import run

SEEDS = 96
PARTS = 6
"""So that workers of pytest-xdist can share them."""


@pytest.mark.parametrize("part", range(PARTS))
def test_no_promise_is_broken(part: int) -> None:
    entries = 0
    for seed in range(part, SEEDS, PARTS):
        result = run(draw(seed))
        assert result.violation is None, explain(seed, result)
        entries += result.entries
    assert entries > SEEDS  # otherwise the plans test little
