"""How long a majority keeps what it granted."""

from __future__ import annotations

import pytest

from aiolock.backends.quorum.majority import Tally
from aiolock.backends.quorum.members import Members
from aiolock.backends.quorum.node import Node

from .world import Link, Trio


@pytest.mark.parametrize(
    ("terms", "lasting"),
    [
        ([(0.0, 10_000), (0.0, 20_000), (0.0, 30_000)], 20_000),  # from then on one node keeps it, and two may grant it
        ([(0.0, 30_000), (0.0, 10_000)], 10_000),  # nothing is known of the third
        ([(5.0, 10_000), (0.0, 12_000), (0.0, 1_000)], 12_000),  # 15 s, 12 s, 1 s
    ],
)
def test_until_the_second_of_three_ends(trio: Trio, terms: list[tuple[float, int]], lasting: int) -> None:
    """Kept by Tally.lasting: `ends[-self.quorum]`. Broken by the greatest, which a single node keeps."""
    members = Members(
        [Node(number, Link(store, trio.clock)) for number, store in enumerate(trio.stores)], trio.clock, 1.0
    )
    tally = Tally(members, [(sent_at, None) for sent_at, _ in terms], final=True)
    drift = lasting / 100 + 2
    assert tally.began == 0.0
    assert tally.lasting(terms) == pytest.approx(lasting - drift, abs=1)
