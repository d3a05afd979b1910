"""One server, one JVM and one process of ours for all tests that have both sides; they run with --redisson."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from aiolock.testing.server import RedisServer
from tests.conftest import choose
from tests.support import redis_cli

from .peer import VERSIONS, Peer, start_java, start_python

HERE = Path(__file__).parent
TTL = 1.5
"""Seconds, of both sides."""
TTL_MS = 1500
LASTING = ("redisson_unlock_latch", "redisson_lock_token", "aiolock_dead", "counter")
"""What may be left: until Redisson 4.3 its latches, for up to 20 s; counters, and tombstones of lost requests."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --redisson, leave out what needs a JVM."""
    if not config.getoption("--redisson"):
        choose(config, items, lambda item: item.path.parent != HERE or "version" not in _fixtures(item))


def _fixtures(item: pytest.Item) -> tuple[str, ...]:
    return tuple(getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def shared_url(redis_server: RedisServer) -> str:
    return redis_server.url


@pytest.fixture(scope="session")
def java(version: str, shared_url: str) -> Iterator[Peer]:
    with start_java(version, shared_url, TTL_MS) as peer:
        yield peer


@pytest.fixture(scope="session")
def python(shared_url: str) -> Iterator[Peer]:
    with start_python(shared_url, TTL_MS) as peer:
        yield peer


@pytest.fixture
def link(shared_url: str) -> Iterator[redis.Redis]:
    """A client of the server. The test begins with an empty one, and leaves nothing in it."""
    with redis_cli.client(shared_url, decode_responses=True) as link:
        link.flushall()
        yield link
        assert [key for key in link.scan_iter() if not str(key).startswith(LASTING)] == []
