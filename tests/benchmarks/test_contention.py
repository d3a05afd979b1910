"""What is made of the times at which tasks asked, entered and left."""

from __future__ import annotations

import asyncio

import pytest

from aiolock.testing.server import RedisServer
from benchmarks.contention import Visits, contend, handoffs, longest_wait, overlaps
from benchmarks.figure import Figure, cdf, percentile
from benchmarks.peers.adapter import opened


def test_a_handoff_is_from_one_process_to_a_waiter_of_another() -> None:
    one = Visits([(0.0, 1.0, 2.0), (0.0, 2.5, 3.0), (9.0, 9.1, 9.2)])
    other = Visits([(0.0, 3.25, 4.0)])
    assert handoffs([one, other]) == [0.25]  # 2 → 2.5 is in one process; at 4 nobody waited


def test_with_permits_an_entry_follows_the_leave_so_many_places_before() -> None:
    one = Visits([(0.0, 1.0, 5.0), (0.0, 1.0, 7.0)])
    other = Visits([(0.0, 5.5, 8.0), (0.0, 7.75, 9.0)])
    assert handoffs([one, other], permits=2) == [0.5, 0.75]


def test_overlaps_are_entries_beside_a_running_body() -> None:
    one, other = Visits([(0.0, 1.0, 4.0), (0.0, 6.0, 7.0)]), Visits([(0.0, 2.0, 2.5), (0.0, 3.0, 3.5), (0.0, 5.0, 5.5)])
    assert overlaps([one, other]) == 2
    assert overlaps([one]) == 0


def test_who_never_got_in_waited_too() -> None:
    assert longest_wait([Visits([(0.0, 1.0, 2.0)], [7.0]), Visits()]) == 7.0


def test_verdicts() -> None:
    assert [Figure("A", "", value, must=1.0, aim=2.0).verdict for value in (0.9, 1.0, 2.0)] == ["missed", "must", "aim"]
    assert [Figure("E", "", value, must=12, at_least=False).verdict for value in (12, 13)] == ["must", "missed"]
    assert Figure("E", "", None, must=12).verdict == "absent"
    figure = Figure.median("C", "waits", [3.0, 1.0, 2.0])
    assert (figure.value, figure.verdict) == (2.0, "measured")
    assert Figure.from_json(figure.as_json()) == figure


def test_shares() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert cdf([2.0, 1.0], points=1) == [(1.0, 0.0), (2.0, 1.0)]


class NoLock:
    """Lets everybody in."""

    settings, scripted, permits = "", frozenset[str](), 1

    async def open(self, url: str) -> None: ...

    async def close(self) -> None: ...

    def lock(self, name: str, ttl: float) -> NoLock:
        return self

    async def __aenter__(self) -> None:
        await asyncio.sleep(0)

    async def __aexit__(self, *how: object) -> None: ...


async def test_a_lock_that_is_none_is_seen_through() -> None:
    seen = await contend(NoLock(), "n", 5, 0.1, section=0.01)
    assert overlaps([seen]) >= 4  # all five at once, and again, if the machine does not stand still meanwhile


@pytest.mark.parametrize("kind", ["Lock", "Fair", "Write"])
async def test_ours_are_locks(kind: str, redis_server: RedisServer, redis_url: str) -> None:
    async with opened(f"benchmarks.peers.aiolock:{kind}", redis_url) as library:
        seen = await contend(library, "n", 5, 0.5, section=0.001)
    assert len(seen.times) >= 5  # each once, and again, if the machine does not stand still meanwhile
    assert (overlaps([seen]), seen.errors, seen.waiting) == (0, {}, [])
