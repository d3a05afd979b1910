"""Readers and writers on both sides. With Redisson 4: its 3.x does not renew a reader's timeouts as it judges them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
import redis

from .conftest import TTL, TTL_MS
from .peer import PATIENCE, Peer, start_java, start_python
from .test_exclusion import SOON, entered, pair, stays_out

__all__ = ["pair"]

READ, WRITE = "read:a", "write:a"


@pytest.fixture(autouse=True)
def renews_readers(version: str) -> None:
    if version.startswith("3."):
        pytest.skip("Redisson 3.x lets a writer in beside a reader that it renews")


def test_readers_share_and_writers_do_not(pair: Sequence[Peer]) -> None:
    first, second = pair
    first.do("t", "lock", READ)
    assert second.do("t", "tryLock", READ) == "true"
    assert second.do("u", "tryLock", WRITE) == "false"
    writing = second.ask("u", "lock", WRITE)
    stays_out(writing)
    first.do("t", "unlock", READ)
    stays_out(writing)
    second.do("t", "unlock", READ)
    entered(writing)
    reading = [first.ask(task, "lock", READ) for task in ("t", "v")]
    stays_out(reading[0])
    freed = time.time()
    second.do("u", "unlock", WRITE)
    assert max(map(entered, reading)) - freed < SOON
    for task in ("t", "v"):
        first.do(task, "unlock", READ)


def test_both_watchdogs_keep_a_reader(pair: Sequence[Peer]) -> None:
    first, second = pair
    for _ in range(2):
        first.do("t", "lock", READ)
    writing = second.ask("u", "lock", WRITE)
    stays_out(writing, 1.7 * TTL)
    first.do("t", "unlock", READ)
    stays_out(writing, 1.3 * TTL)
    first.do("t", "unlock", READ)
    entered(writing)
    second.do("u", "unlock", WRITE)


def test_a_writer_goes_on_reading(pair: Sequence[Peer]) -> None:
    """Whoever it is, it keeps its read, which is renewed; ours tells the readers, Redisson's lets them wait."""
    first, second = pair
    first.do("t", "lock", WRITE)
    first.do("t", "lock", READ)
    reading = second.ask("t", "lock", READ)
    stays_out(reading)
    freed = time.time()
    first.do("t", "unlock", WRITE)
    assert entered(reading) - freed < (SOON if first.version == "aiolock" else 3 * TTL)
    second.do("t", "unlock", READ)
    time.sleep(1.3 * TTL)
    assert second.do("u", "tryLock", WRITE) == "false"
    first.do("t", "unlock", READ)


def test_a_killed_reader_lets_a_writer_in(
    java: Peer, python: Peer, version: str, shared_url: str, link: redis.Redis
) -> None:
    with start_java(version, shared_url, TTL_MS) as first, start_python(shared_url, TTL_MS) as second:
        for doomed, other in ((first, python), (second, java)):
            doomed.do("t", "lock", READ)
            writing = other.ask("t", "lock", WRITE)
            stays_out(writing)
            doomed.kill()
            entered(writing)
            other.do("t", "unlock", WRITE)


def test_no_torn_reads(version: str, shared_url: str, link: redis.Redis, java: Peer) -> None:
    link.set("counter", 0)
    with start_java(version, shared_url, 30_000) as jvm, start_python(shared_url, 30_000) as ours:
        reads = [
            side.ask(task, "readers", "a", "counter", 150) for side, task in ((jvm, "r"), (ours, "r"), (ours, "s"))
        ]
        for done in [side.ask("w", "count", WRITE, "counter", 100) for side in (jvm, ours)]:
            done.result(120)
        assert [done.result(PATIENCE).value for done in reads] == ["0", "0", "0"]
    assert link.get("counter") == "200"
