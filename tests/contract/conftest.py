"""The places where the contract is checked, and two managers at each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from aiolock import Lock, LockManager
from tests.support import redis_cli
from tests.support.replication import Pair

from .places import MemoryPlace, Place, RedisPlace


@pytest.fixture
def redis_place(redis_url: str) -> Iterator[RedisPlace]:
    """A real server, empty."""
    with redis_cli.client(redis_url) as link:
        place = RedisPlace(redis_url, link)
        yield place
        place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def replicated_place(replicated: Pair) -> Iterator[RedisPlace]:
    """A master, whose replica must acknowledge every grant and renewal; the ttl is long enough to wait for it."""
    place = RedisPlace(replicated.url, replicated.link, min_replicas=1, replica_timeout=0.2)
    yield place
    place.side.close()  # type: ignore[attr-defined]


@pytest.fixture(params=["memory", "redis", "replicated"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each place in turn: a lock means the same everywhere."""
    return MemoryPlace() if request.param == "memory" else request.getfixturevalue(f"{request.param}_place")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test whose ttl is too short to wait for a replica is not run there."""
    items[:] = [item for item in items if not (item.get_closest_marker("short_ttl") and "replicated" in item.name)]


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
