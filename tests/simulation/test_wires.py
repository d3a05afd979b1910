"""Redisson's wire and the rows of a database in simulation, while all kinds of things go wrong."""

from __future__ import annotations

import pytest

from .drawing import draw
from .report import explain
from .run import run

SEEDS = 64
PARTS = 4


@pytest.mark.parametrize("wire", ["redisson", "rows"])
@pytest.mark.parametrize("part", range(PARTS))
def test_no_promise_is_broken(wire: str, part: int) -> None:
    entries = 0
    for seed in (f"{wire}:{number}" for number in range(part, SEEDS, PARTS)):
        result = run(draw(seed))
        assert result.violation is None, explain(seed, result)
        entries += result.entries
    assert entries > SEEDS
