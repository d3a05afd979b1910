"""A JVM and a process of ours that count the same latch down."""

from __future__ import annotations

import time

import redis

from .peer import Peer
from .test_exclusion import SOON, entered, stays_out

WHAT = "latch:a"


def test_each_opens_it_for_the_other(java: Peer, python: Peer, link: redis.Redis) -> None:
    for first, second in ((java, python), (python, java)):
        assert first.do("t", "trySetCount", WHAT, 3) == "true"
        assert second.do("t", "trySetCount", WHAT, 9) == "false"
        waiting = [side.ask("w", "await", WHAT) for side in (first, second)]
        for side in (first, second):
            side.do("t", "countDown", WHAT)
            for one in waiting:
                stays_out(one)
        assert [side.do("t", "count", WHAT) for side in (first, second)] == ["1", "1"]
        opened = time.time()
        first.do("t", "countDown", WHAT)
        for one in waiting:
            assert entered(one) - opened < SOON
        assert [side.do("t", "count", WHAT) for side in (first, second)] == ["0", "0"]


def test_many_count_at_once(java: Peer, python: Peer, link: redis.Redis) -> None:
    """And each count counts once."""
    java.do("t", "trySetCount", WHAT, 400)
    counting = [side.ask(task, "countDown", WHAT) for side in (java, python) for task in "abcd" for _ in range(50)]
    waiting = python.ask("w", "await", WHAT)
    for one in (*counting, waiting):
        entered(one)
    assert not link.exists("a")
