"""Redisson's lock in simulation: many tasks race for it, told by its channel, while all kinds of things go wrong."""

from __future__ import annotations

import pytest

from .drawing import draw_redisson
from .report import explain
from .run import run

SEEDS = 48
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_no_promise_is_broken(part: int) -> None:
    entries = 0
    for seed in range(part, SEEDS, PARTS):
        result = run(draw_redisson(seed))
        assert result.violation is None, explain(seed, result)
        entries += result.entries
    assert entries > SEEDS
