"""The places where the contract is checked, and two managers at each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from aiolock import Lock, LockManager
from tests.support import redis_cli
from tests.support.replication import Pair

from .places import MemoryPlace, Place, PollingPlace, QuorumPlace, RedisPlace


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that means nothing at a place is not run there: see the markers."""
    left_out = [item for item in items if _means_nothing(item, _place_of(item))]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def _means_nothing(item: pytest.Item, place: object) -> bool:
    if place == "polling":
        return item.get_closest_marker("not_polling") is not None
    if place == "quorum":
        return item.path.name != "test_lock.py"  # it offers no other primitive
    if place == "replicated":  # what replicas change of the other primitives is in tests/replicas
        return item.get_closest_marker("short_ttl") is not None or item.path.name != "test_lock.py"
    return False


def _place_of(item: pytest.Item) -> object:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("place")


@pytest.fixture
def redis_place(redis_url: str) -> Iterator[RedisPlace]:
    """A real server, empty."""
    with redis_cli.client(redis_url) as link:
        place = RedisPlace(redis_url, link)
        yield place
        place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def replicated_place(replicated: Pair) -> Iterator[RedisPlace]:
    """A master, whose replica must acknowledge every grant and renewal; the ttl is long enough to wait for it.

    Also on a machine that stands still for two seconds.
    """
    place = RedisPlace(replicated.url, replicated.link, min_replicas=1, replica_timeout=3.0, request_timeout=12.0)
    place.ttl = 30.0
    yield place
    place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def polling_place(redis_url: str) -> Iterator[PollingPlace]:
    """A real server, empty, on which everybody polls."""
    with redis_cli.client(redis_url) as link:
        place = PollingPlace(redis_url, link)
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


@pytest.fixture(params=["memory", "redis", "polling", "replicated", "quorum"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each place in turn: what a primitive means, it means everywhere."""
    return MemoryPlace() if request.param == "memory" else request.getfixturevalue(f"{request.param}_place")


@pytest.fixture
async def locks(place: Place) -> AsyncIterator[LockManager]:
    """One process's manager."""
    async with place.manager(ttl=place.ttl) as manager:
        yield manager


@pytest.fixture
async def others(place: Place) -> AsyncIterator[LockManager]:
    """Another process's manager, which looks for itself too seldom to be of help to a test."""
    async with place.manager(ttl=place.ttl, recheck=60.0) as manager:
        yield manager


@pytest.fixture
def here(locks: LockManager) -> Lock:
    return locks.lock("order:42")


@pytest.fixture
def there(others: LockManager) -> Lock:
    return others.lock("order:42")
