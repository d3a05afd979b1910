"""What each side does to the server: versions of Redisson as they are known to do it, and ours as they do.

If a new version differs, look at the difference; `python -m tests.redisson.trace VERSION` then writes it down.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from aiolock.testing.server import RedisServer

from .peer import start_java, start_python
from .trace import EFFECTS, GOLDEN, LASTING_MS, TTL_MS, Trace, in_one, scripts_of

TIMEOUT = ":rwlock_timeout:"


@pytest.fixture
def raw(redis_server: RedisServer, redis_url: str) -> Iterator[redis.Redis]:
    """A client of a server that is empty."""
    with redis.Redis.from_url(redis_server.url) as raw:
        yield raw
        raw.flushall()


def test_ours_leave_and_tell_what_redisson_does(redis_server: RedisServer, raw: redis.Redis) -> None:
    """Without Java. But for deadlines in a fair lock's queue, which each side has of its own; ours have one timeout for
    all levels of a reader; and we tell holders of ours that a fair lock was ended by force.
    """
    url = redis_server.url
    with start_python(url, LASTING_MS) as a, start_python(url, LASTING_MS) as b, start_python(url, LASTING_MS) as c:
        lines = list(Trace({"a": a, "b": b, "c": c}, raw).lines())
    lines.remove("  redisson_lock__channel:{F} <- 0")
    known = EFFECTS.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if TIMEOUT not in line] == [line for line in known if TIMEOUT not in line]


def test_redisson_leaves_and_tells_what_it_did(version: str, redis_server: RedisServer, raw: redis.Redis) -> None:
    with start_java(version, redis_server.url, LASTING_MS) as java:
        assert list(Trace(in_one(java), raw).lines()) == EFFECTS.read_text(encoding="utf-8").splitlines()


def test_its_scripts_are_known(version: str, redis_server: RedisServer, raw: redis.Redis) -> None:
    known = GOLDEN / f"scripts-{version.partition('.')[0]}.txt"
    with start_java(version, redis_server.url, TTL_MS) as java:
        assert scripts_of(java, raw).splitlines() == known.read_text(encoding="utf-8").splitlines()
