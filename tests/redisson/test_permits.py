"""A JVM and a process of ours that share permits which expire."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis

from .conftest import TTL, TTL_MS
from .peer import PATIENCE, Peer, PeerError, start_java, start_python
from .test_exclusion import SOON, entered, stays_out

WHAT, IDS = "permits:a", "{a}:timeout"


@pytest.fixture(autouse=True)
def emptied(link: redis.Redis) -> Iterator[None]:
    """At the end all are free, and only their number is left."""
    yield
    assert (link.get("a"), link.exists(IDS)) in (("1", 0), ("3", 0), (None, 0))
    link.delete("a")


@pytest.fixture(params=["java first", "python first"])
def pair(request: pytest.FixtureRequest, java: Peer, python: Peer, link: redis.Redis) -> tuple[Peer, Peer]:
    return (java, python) if request.param == "java first" else (python, java)


def test_each_keeps_the_other_out_and_wakes_it(pair: tuple[Peer, Peer]) -> None:
    first, second = pair
    assert first.do("t", "trySetPermits", WHAT, 3) == "true"
    assert second.do("t", "trySetPermits", WHAT, 9) == "false"
    for task in "abc":
        first.do(task, "lock", WHAT)
    assert second.do("t", "tryLock", WHAT) == "false"
    waiting = [second.ask(task, "lock", WHAT) for task in "de"]
    for one in waiting:
        stays_out(one)
    freed = time.time()
    for task in "abc":
        first.do(task, "unlock", WHAT)
    for one in waiting:
        assert entered(one) - freed < SOON
    for task in "de":
        second.do(task, "unlock", WHAT)


def test_each_counts_the_others(java: Peer, python: Peer) -> None:
    python.do("t", "trySetPermits", WHAT, 3)
    python.do("t", "lock", WHAT)
    java.do("t", "lock", WHAT)
    assert [java.do("t", what, WHAT) for what in ("permits", "available", "acquired")] == ["3", "1", "2"]
    java.do("t", "unlock", WHAT)
    python.do("t", "unlock", WHAT)


def test_ours_are_renewed_and_theirs_expire(java: Peer, python: Peer) -> None:
    """In Java nobody renews a permit; whoever waits here knows when it is over, without a message."""
    java.do("t", "trySetPermits", WHAT, 1)
    python.do("t", "lock", WHAT)
    waiting = java.ask("t", "lock", WHAT, 1000)
    stays_out(waiting, 1.7 * TTL)
    python.do("t", "unlock", WHAT)
    began = entered(waiting)
    assert 0.9 < entered(python.ask("t", "lock", WHAT)) - began < 1.0 + SOON
    python.do("t", "unlock", WHAT)


def test_those_of_a_killed_one_come_back(java: Peer, python: Peer, shared_url: str) -> None:
    java.do("t", "trySetPermits", WHAT, 1)
    with start_python(shared_url, TTL_MS) as doomed:
        doomed.do("t", "lock", WHAT)
        waiting = java.ask("t", "lock", WHAT)
        stays_out(waiting)
        doomed.kill()
        killed = time.time()
        assert TTL * 0.4 < entered(waiting) - killed < TTL + SOON
    java.do("t", "unlock", WHAT)


def test_a_frozen_one_loses_it_and_takes_nobody_elses(java: Peer, shared_url: str) -> None:
    java.do("t", "trySetPermits", WHAT, 1)
    with start_python(shared_url, TTL_MS) as frozen:
        frozen.do("t", "lock", WHAT)
        frozen.freeze()
        java.do("t", "lock", WHAT)
        frozen.thaw()
        lost = frozen.ask("t", "lost", WHAT)
        assert lost.result(PATIENCE).value in ("loop_blocked", "deleted")
        with pytest.raises(PeerError, match="LockLost"):
            frozen.do("t", "unlock", WHAT)
        assert java.do("t", "available", WHAT) == "0"
    java.do("t", "unlock", WHAT)


def test_an_end_by_force_is_found_by_the_next_renewal(java: Peer, python: Peer) -> None:
    java.do("t", "trySetPermits", WHAT, 1)
    python.do("t", "lock", WHAT)
    lost = python.ask("t", "lost", WHAT)
    stays_out(lost)
    assert java.do("t", "delete", WHAT) == "true"
    assert lost.result(PATIENCE).value == "deleted"
    with pytest.raises(PeerError, match="LockLost"):
        python.do("t", "unlock", WHAT)


def test_a_counter_is_exact(java: Peer, version: str, shared_url: str, link: redis.Redis) -> None:
    """One permit is a lock: two threads of a JVM and two processes of ours read a counter, and write one more."""
    java.do("t", "trySetPermits", WHAT, 1)
    with (
        start_java(version, shared_url, 30_000) as jvm,
        start_python(shared_url, 30_000) as one,
        start_python(shared_url, 30_000) as two,
    ):
        sides = ((jvm, "a"), (jvm, "b"), (one, "a"), (two, "a"))
        for done in [side.ask(task, "count", WHAT, "counter", 500) for side, task in sides]:
            done.result(300)
    assert link.get("counter") == "2000"
