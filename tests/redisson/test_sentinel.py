"""A JVM and a process of ours on a master that Sentinels watch, before and after it is replaced."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.support.sentinels import SentinelSet, start_sentinels

from .peer import Peer, start_java, start_python
from .test_exclusion import entered, stays_out

TTL, TTL_MS = 10.0, 10_000
"""A JVM needs seconds until it has found the new master."""
KINDS = ("lock", "fenced", "fair", "write", "permits")


@pytest.fixture(scope="module")
def watched() -> Iterator[SentinelSet]:
    with start_sentinels() as sentinels:
        yield sentinels


@pytest.fixture(scope="module")
def peers(version: str, watched: SentinelSet) -> Iterator[tuple[Peer, Peer]]:
    places = ",".join(f"{host}:{port}" for host, port in watched.addresses)
    url = f"sentinel://{places}/{watched.service}"
    with start_java(version, url, TTL_MS) as java, start_python(url, TTL_MS) as python:
        yield java, python


async def test_each_keeps_the_other_out_and_wakes_it(watched: SentinelSet, peers: tuple[Peer, Peer]) -> None:
    """Also one that has waited since before the failover, and what was held before it stays held and renewed."""
    for first, second in (peers, peers[::-1]):
        holds = {kind: f"{kind}:{kind}" for kind in KINDS}
        first.do("t", "trySetPermits", holds["permits"], 1)
        for what in holds.values():
            first.do("t", "lock", what)
        waiting = {kind: second.ask(kind, "lock", what) for kind, what in holds.items()}
        for one in waiting.values():
            stays_out(one, 0.1)
        await asyncio.sleep(0.5)  # a replica has it by now
        await watched.failed_over(watched.failover())
        await asyncio.sleep(1.3 * TTL)
        assert [kind for kind, one in waiting.items() if one.done()] == []
        for kind, what in holds.items():
            freed = time.time()
            first.do("t", "unlock", what)
            assert entered(waiting[kind]) - freed < TTL / 3
            second.do(kind, "unlock", what)
