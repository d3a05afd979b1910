"""A JVM and a process of ours on the same locks: who is in, who waits, and who is told."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, wait

import pytest
import redis

from .conftest import TTL, TTL_MS
from .peer import PATIENCE, Peer, PeerError, Said, start_java, start_python

KINDS = ("lock", "fenced", "fair", "write")
SOON = TTL / 2
"""Seconds: before any ttl is over, so it was a message."""


@pytest.fixture(params=["java first", "python first"])
def pair(request: pytest.FixtureRequest, java: Peer, python: Peer, link: redis.Redis) -> Sequence[Peer]:
    return (java, python) if request.param == "java first" else (python, java)


def stays_out(waiting: Future[Said], seconds: float = 0.3) -> None:
    done, _ = wait([waiting], seconds)
    assert not done, "it got in"


def entered(waiting: Future[Said]) -> float:
    """When it got in."""
    return waiting.result(PATIENCE).ended


@pytest.mark.parametrize("kind", KINDS)
def test_each_keeps_the_other_out_and_wakes_it(pair: Sequence[Peer], kind: str) -> None:
    first, second = pair
    what = f"{kind}:a"
    first.do("t", "lock", what)
    assert second.do("t", "tryLock", what) == "false"
    waiting = second.ask("t", "lock", what)
    stays_out(waiting)
    freed = time.time()
    first.do("t", "unlock", what)
    assert entered(waiting) - freed < SOON
    second.do("t", "unlock", what)
    assert first.do("t", "tryLock", what) == "true"
    first.do("t", "unlock", what)


@pytest.mark.parametrize("kind", KINDS)
def test_each_nests(pair: Sequence[Peer], kind: str) -> None:
    first, second = pair
    what = f"{kind}:a"
    for _ in range(3):
        first.do("t", "lock", what)
    for _ in range(3):
        assert second.do("t", "tryLock", what) == "false"
        first.do("t", "unlock", what)
    assert second.do("t", "tryLock", what) == "true"
    second.do("t", "unlock", what)


@pytest.mark.parametrize("kind", KINDS)
def test_each_watchdog_keeps_the_other_out(pair: Sequence[Peer], kind: str) -> None:
    """Nested, too: after one of two releases it is still renewed."""
    first, second = pair
    what = f"{kind}:a"
    first.do("t", "lock", what)
    first.do("t", "lock", what)
    waiting = second.ask("t", "lock", what)
    stays_out(waiting, 1.7 * TTL)
    first.do("t", "unlock", what)
    stays_out(waiting, 1.3 * TTL)
    first.do("t", "unlock", what)
    entered(waiting)
    second.do("t", "unlock", what)


def test_a_lock_and_a_fenced_lock_of_one_name_are_one_lock(pair: Sequence[Peer]) -> None:
    first, second = pair
    first.do("t", "lock", "lock:a")
    assert second.do("t", "tryLock", "fenced:a") == "false"
    first.do("t", "unlock", "lock:a")


def test_tokens_only_rise(java: Peer, python: Peer, link: redis.Redis) -> None:
    seen = []
    for _ in range(3):
        for side in (java, python):
            seen.append(int(side.do("t", "lockAndGetToken", "fenced:a")))
            assert java.do("u", "getToken", "fenced:a") == str(seen[-1])
            side.do("t", "unlock", "fenced:a")
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_one_keeps_it_for_the_ttl(
    java: Peer, python: Peer, version: str, shared_url: str, link: redis.Redis, kind: str
) -> None:
    what = f"{kind}:a"
    with start_java(version, shared_url, TTL_MS) as first, start_python(shared_url, TTL_MS) as second:
        for doomed, other in ((first, python), (second, java)):
            doomed.do("t", "lock", what)
            waiting = other.ask("t", "lock", what)
            stays_out(waiting)
            doomed.kill()
            killed = time.time()
            assert entered(waiting) - killed > TTL * 0.4
            other.do("t", "unlock", what)


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_one_loses_it_and_ends_nobody_elses(
    java: Peer, python: Peer, version: str, shared_url: str, link: redis.Redis, kind: str
) -> None:
    """It is told, and neither its release nor its watchdog touches the next holder's."""
    what = f"{kind}:a"
    with start_java(version, shared_url, TTL_MS) as frozen:
        outlast(frozen, python, what)
        with pytest.raises(PeerError, match="IllegalMonitorState"):
            frozen.do("t", "unlock", what)
        keeps(python, java, what)
    with start_python(shared_url, TTL_MS) as frozen:
        outlast(frozen, java, what)
        lost = frozen.ask("t", "lost", what)
        assert lost.result(PATIENCE).value in ("loop_blocked", "taken_over")
        with pytest.raises(PeerError, match="LockLost"):
            frozen.do("t", "unlock", what)
        keeps(java, python, what)


def outlast(frozen: Peer, other: Peer, what: str) -> None:
    """Let `other` in while it stands still."""
    frozen.do("t", "lock", what)
    frozen.freeze()
    began = time.time()
    assert entered(other.ask("t", "lock", what)) - began > TTL * 0.4
    frozen.thaw()


def keeps(holder: Peer, other: Peer, what: str) -> None:
    """It has it for longer than any ttl, and then no longer."""
    stays_out(other.ask("x", "lock", what), 1.3 * TTL)
    holder.do("t", "unlock", what)
    other.do("x", "unlock", what)


@pytest.mark.parametrize("kind", KINDS)
def test_an_end_by_force_ends_the_others_hold(java: Peer, python: Peer, link: redis.Redis, kind: str) -> None:
    """Whoever ends it, a holder of ours hears of it at once, and one in Java at its unlock."""
    what = f"{kind}:a"
    for side in (java, python):
        slow = side is java and kind == "fair"
        took = [heard_after(side, python, what) for _ in range(1 if slow else 9)]
        # Java's forceUnlock() of a fair lock tells nobody but the first in line: the next renewal finds out.
        assert sorted(took)[len(took) // 2] < (TTL / 2 if slow else 0.05)
    java.do("t", "lock", what)
    assert python.do("t", "forceUnlock", what) == "true"
    assert java.do("t", "isHeld", what) == "false"
    if kind == "fair":
        java.do("t", "unlock", what)  # Redisson does not look who had it if nobody has it
        return
    with pytest.raises(PeerError, match="IllegalMonitorState"):
        java.do("t", "unlock", what)


def heard_after(side: Peer, holder: Peer, what: str) -> float:
    """Let one side end what the other has; return after how many seconds the holder was told."""
    holder.do("t", "lock", what)
    lost = holder.ask("t", "lost", what)
    stays_out(lost)
    forced = time.time()
    assert side.do("f", "forceUnlock", what) == "true"
    said = lost.result(PATIENCE)
    assert said.value == "deleted"
    with pytest.raises(PeerError, match="LockLost"):
        holder.do("t", "unlock", what)
    return said.ended - forced


@pytest.mark.parametrize(("kind", "each"), [("lock", 2500), ("fenced", 500), ("fair", 500), ("write", 500)])
def test_a_counter_is_exact(java: Peer, version: str, shared_url: str, link: redis.Redis, kind: str, each: int) -> None:
    """Two threads of a JVM and two processes of ours read it, and write one more."""
    ttl_ms, what = 30_000, f"{kind}:a"
    with (
        start_java(version, shared_url, ttl_ms) as jvm,
        start_python(shared_url, ttl_ms) as one,
        start_python(shared_url, ttl_ms) as two,
    ):
        sides = ((jvm, "a"), (jvm, "b"), (one, "a"), (two, "a"))
        for done in [side.ask(task, "count", what, "counter", each) for side, task in sides]:
            done.result(300)
    assert link.get("counter") == str(4 * each)
