"""The places where the contract is checked, and two managers at each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from aiolock import Lock, LockManager
from tests.support import redis_cli

from .places import MemoryPlace, Place, QuorumPlace, RedisPlace


@pytest.fixture
def redis_place(redis_url: str) -> Iterator[RedisPlace]:
    """A real server, empty."""
    with redis_cli.client(redis_url) as link:
        place = RedisPlace(redis_url, link)
        yield place
        place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def quorum_place(three_urls: list[str]) -> Iterator[QuorumPlace]:
    """Three real servers, empty."""
    with ExitStack() as stack:
        links = [stack.enter_context(redis_cli.client(url)) for url in three_urls]
        place = QuorumPlace(three_urls, links)
        yield place
        place.side.close()  # type: ignore[attr-defined]


@pytest.fixture(params=["memory", "redis"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each place in turn: what a primitive means, it means everywhere. A quorum offers locks only: see test_lock.py."""
    return MemoryPlace() if request.param == "memory" else request.getfixturevalue(f"{request.param}_place")


@pytest.fixture
async def locks(place: Place) -> AsyncIterator[LockManager]:
    """One process's manager."""
    async with place.manager(ttl=2.0) as manager:
        yield manager


@pytest.fixture
async def others(place: Place) -> AsyncIterator[LockManager]:
    """Another process's manager, which looks for itself too seldom to be of help to a test."""
    async with place.manager(ttl=2.0, recheck=60.0) as manager:
        yield manager


@pytest.fixture
def here(locks: LockManager) -> Lock:
    return locks.lock("order:42")


@pytest.fixture
def there(others: LockManager) -> Lock:
    return others.lock("order:42")
