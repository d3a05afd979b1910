"""Threads in Java and tasks of ours in one queue of a fair lock."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future

import pytest
import redis

from .conftest import TTL, TTL_MS
from .peer import PATIENCE, Peer, Said, start_python

WHAT = "fair:a"
QUEUE, DEADLINES = "redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"


def until(check: Callable[[], object], seconds: float = PATIENCE) -> None:
    begun = time.monotonic()
    while not check():
        assert time.monotonic() < begun + seconds
        time.sleep(0.01)


def line_up(link: redis.Redis, side: Peer, task: str) -> Future[Said]:
    """Let it wait behind those that wait."""
    before = link.llen(QUEUE)
    waiting = side.ask(task, "lock", WHAT)
    until(lambda: link.llen(QUEUE) == before + 1)
    return waiting


def served(waiting: list[tuple[Peer, str, Future[Said]]]) -> list[float]:
    """Let each in, and out again; return when each came in."""
    entered = []
    for side, task, answer in waiting:
        entered.append(answer.result(PATIENCE).ended)
        side.do(task, "unlock", WHAT)
    return entered


@pytest.mark.parametrize("holds", [0.0, 3 * TTL + 3.0])
def test_first_come_first_served(java: Peer, python: Peer, link: redis.Redis, holds: float) -> None:
    """However long the holder keeps it: ours outlive the deadlines that Redisson's script gives them."""
    java.do("t", "lock", WHAT)
    order = (java, python, python, java, java, python)
    waiting = [(side, f"t{i}", line_up(link, side, f"t{i}")) for i, side in enumerate(order)]
    time.sleep(holds)
    java.do("t", "unlock", WHAT)
    entered = served(waiting)
    assert entered == sorted(entered)
    assert not link.exists(QUEUE, DEADLINES)


def test_a_dead_process_of_ours_is_passed_over(java: Peer, python: Peer, shared_url: str, link: redis.Redis) -> None:
    """After its liveness and the holder's ttl at most."""
    java.do("t", "lock", WHAT)
    with start_python(shared_url, TTL_MS) as doomed:
        line_up(link, doomed, "t")
        waiting = [(side, "u", line_up(link, side, "u")) for side in (java, python)]
        doomed.kill()
    java.do("t", "unlock", WHAT)
    freed = time.time()
    entered = served(waiting)
    assert entered[0] - freed < 3.0 + TTL + 1.0


def test_one_that_gives_up_leaves_no_trace(java: Peer, python: Peer, link: redis.Redis) -> None:
    """The places and the deadlines of the others are as if it had not come."""
    java.do("t", "lock", WHAT)
    first = line_up(link, java, "u")
    before = deadlines(link)
    assert python.do("t", "tryLock", WHAT, 200) == "false"
    until(lambda: link.llen(QUEUE) == 1)
    assert deadlines(link) == pytest.approx(before, abs=10)
    java.do("t", "unlock", WHAT)
    served([(java, "u", first)])


def deadlines(link: redis.Redis) -> list[float]:
    return [score for _, score in link.zrange(DEADLINES, 0, -1, withscores=True)]
