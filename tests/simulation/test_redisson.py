"""Redisson's wire in simulation: locks, fair ones, readers and writers, permits, while all kinds of things go wrong."""

from __future__ import annotations

import pytest

from .drawing import draw
from .report import explain
from .run import run

SEEDS = 64
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_no_promise_is_broken(part: int) -> None:
    entries = 0
    for seed in (f"redisson:{number}" for number in range(part, SEEDS, PARTS)):
        result = run(draw(seed))
        assert result.violation is None, explain(seed, result)
        entries += result.entries
    assert entries > SEEDS
