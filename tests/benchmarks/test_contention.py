"""Tasks that contend, and how their figures are judged."""

from __future__ import annotations

import asyncio

import pytest

from aiolock.testing.server import RedisServer
from benchmarks.contention import contend
from benchmarks.crowd import Crowd
from benchmarks.figure import Figure, percentile, tail
from benchmarks.peers.adapter import opened


def test_verdicts() -> None:
    assert [Figure("A", "", value, must=1.0, aim=2.0).verdict for value in (0.9, 1.0, 2.0)] == ["missed", "must", "aim"]
    assert [Figure("E", "", value, must=12, at_least=False).verdict for value in (12, 13)] == ["must", "missed"]
    assert Figure("E", "", None, must=12).verdict == "absent"
    figure = Figure.median("C", "waits", [3.0, 1.0, 2.0])
    assert (figure.value, figure.verdict) == (2.0, "measured")
    assert Figure.from_json(figure.as_json()) == figure


def test_shares() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert {2: 51.0, 10: 91.0, 100: 100.0}.items() <= dict(tail(values)).items()
    assert max(number for number, _ in tail(values)) == 100  # with a hundred values there is no one-in-two-hundred


class NoLock:
    """Lets everyone in."""

    settings, scripted, permits = "", frozenset[str](), 1

    async def open(self, url: str) -> None: ...

    async def close(self) -> None: ...

    def lock(self, name: str, ttl: float) -> NoLock:
        return self

    async def __aenter__(self) -> None:
        await asyncio.sleep(0)

    async def __aexit__(self, *how: object) -> None: ...


async def test_a_lock_that_does_not_lock_is_seen_through() -> None:
    seen = await contend(NoLock(), "n", 5, 0.1, section=0.01)
    assert Crowd([seen]).overlaps >= 4  # all five at once, and again if the machine keeps running meanwhile


@pytest.mark.parametrize("kind", ["Lock", "Fair", "Write"])
async def test_ours_are_locks(kind: str, redis_server: RedisServer, redis_url: str) -> None:
    async with opened(f"benchmarks.peers.aiolock:{kind}", redis_url) as library:
        seen = await contend(library, "n", 5, 0.5, section=0.001)
    assert {visit.task for visit in seen.times} == set(range(5))
    assert len(seen.times) >= 5  # each once, and again if the machine keeps running meanwhile
    assert (Crowd([seen]).overlaps, seen.errors, seen.waiting) == (0, {}, [])
