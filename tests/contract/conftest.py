"""The places where the contract is checked, and two managers at each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from aiolock import Lock, LockManager
from tests.conftest import choose
from tests.support import etcd, mysql, postgres, redis_cli, zookeeper
from tests.support.cluster import Cluster
from tests.support.replication import Pair
from tests.support.skipping import skip_waits

from .places import (
    ClusterPlace,
    DatabasePlace,
    FilePlace,
    MemoryPlace,
    MySQLPlace,
    Place,
    PollingPlace,
    QuorumPlace,
    RedisPlace,
)
from .queues import EtcdPlace, MemoryQueuePlace, ZooKeeperPlace
from .threads import ThreadPlace

HERE = Path(__file__).parent
PLACES = (
    *("memory", "redis", "polling", "replicated", "quorum", "cluster", "threads", "sqlite", "postgres", "mariadb"),
    *("mysql", "queues", "etcd", "zookeeper"),
)
QUEUES = ("queues", "etcd", "zookeeper")
REPEATED = ("mariadb", "mysql")
TOPOLOGIES = ("cluster", "sqlite", "postgres", "mariadb", "mysql", "etcd", "zookeeper", "polling")
"""Where the whole contract runs in `make test-topologies` only."""
IN_QUEUES = (
    *("test_lock.py", "test_fair_lock.py", "test_rw_lock.py", "test_rw_sides.py", "test_rw_nested_reads.py"),
    *("test_semaphore.py", "test_semaphore_parts.py", "test_holder.py", "test_request_release.py", "test_clients.py"),
    "test_who.py",
)
LOOKS = ("test_lock.py", "test_lock_queue.py", "test_latch.py", "test_condition.py", "test_redisson_lock.py")
"""What polling changes: how one learns of one's turn, of a loss, of a latch that opens, and of a notification."""
SCRIPTED = (
    *("test_lock.py", "test_lock_queue.py", "test_who.py", "test_hold_at_least.py", "test_semaphore_slots.py"),
    "test_priority.py",
)
"""The seam between the scripts and a database: requests, messages, cancellation, fences, losses, the queue."""
IN_PARTS = {
    "cluster": (),
    "polling": LOOKS,
    "postgres": SCRIPTED,
    "mariadb": SCRIPTED,
    "mysql": SCRIPTED,
    "etcd": ("test_lock.py",),
    "zookeeper": ("test_lock.py",),
    "sqlite": (
        *(*SCRIPTED, "test_fair_lock.py", "test_semaphore.py", "test_rw_lock.py", "test_latch.py", "test_condition.py"),
        *("test_once.py", "test_holder.py", "test_resume.py", "test_request_release.py"),
        *("test_reserved.py", "test_follows.py"),
    ),
}
"""What runs there in `make test`, too: what a place has for itself. The file stands for all stores of rows, so each
kind of lock is there once; what two kinds do in the same way, the scripts do in memory and on a server.
"""
IN_THREADS = (
    *("test_lock.py", "test_fair_lock.py", "test_semaphore.py", "test_rw_lock.py", "test_who.py"),
    *("test_hold_at_least.py", "test_semaphore_slots.py", "test_priority.py"),
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --topologies, of these tests run only those at the places of which `make test` runs parts."""
    for marker, places in (("not_in_queues", QUEUES), ("not_in_zookeeper", ("zookeeper",))):
        without(config, items, marker, places)
    if config.getoption("--topologies"):
        choose(config, items, lambda item: item.path.parent != HERE or _place_of(item) in TOPOLOGIES)


def without(config: pytest.Config, items: list[pytest.Item], marker: str, places: tuple[str, ...]) -> None:
    """Leave out what has a marker, at these places."""
    choose(config, items, lambda item: _place_of(item) not in places or item.get_closest_marker(marker) is None)


def _place_of(item: pytest.Item) -> object:
    return (
        item.callspec.params.get("place") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test at every place where it has a meaning, unless the test or its module chooses: see the markers."""
    named = any(mark.args[0] == "place" for mark in metafunc.definition.iter_markers("parametrize"))
    if "place" in metafunc.fixturenames and not named and not hasattr(metafunc.module, "place"):
        places = [place for place in PLACES if _means(metafunc.definition, place)]
        repeats = [
            pytest.param(place, marks=pytest.mark.slow) for place in places if _repeats(metafunc.definition, place)
        ]
        once = [place for place in places if not _repeats(metafunc.definition, place)]
        metafunc.parametrize("place", [*once, *repeats], indirect=True)


def _repeats(test: pytest.Item, place: str) -> bool:
    """Whether it runs what another place runs, too, over a seam of its own, to which one file is enough at first."""
    return place in REPEATED and test.path.name != "test_lock.py"


def _means(test: pytest.Item, place: str) -> bool:
    if test.path.name.startswith("test_redisson") and place not in ("memory", "redis", "polling", "cluster"):
        return False  # it is refused elsewhere, or is the same
    if place == "polling" and test.get_closest_marker("not_polling") is not None:
        return False
    if place in QUEUES and test.path.name not in IN_QUEUES:
        return False
    if place == "threads":
        return test.path.name in IN_THREADS and test.get_closest_marker("not_in_threads") is None
    if place in IN_PARTS and test.path.name not in IN_PARTS[place]:
        return bool(test.config.getoption("--topologies"))
    if place in ("quorum", "replicated") and test.path.name not in (
        "test_lock.py",
        "test_request_release.py",
        "test_who.py",
        "test_hold_at_least.py",
    ):
        return False  # a quorum has no other primitive; tests/replicas has what replicas change for the others
    return place != "replicated" or test.get_closest_marker("short_ttl") is None


@pytest.fixture
def redis_place(redis_url: str) -> Iterator[RedisPlace]:
    """A real server, empty."""
    with redis_cli.client(redis_url) as link:
        place = RedisPlace(redis_url, link)
        yield place
        place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def replicated_place(replicated: Pair) -> Iterator[RedisPlace]:
    """A master whose replica must acknowledge every grant and renewal; the ttl is long enough to wait for it.

    This holds even on a machine that stands still for two seconds.
    """
    place = RedisPlace(replicated.url, replicated.link, min_replicas=1, replica_timeout=3.0, request_timeout=12.0)
    place.ttl = 30.0
    yield place
    place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def polling_place(redis_url: str) -> Iterator[PollingPlace]:
    """A real server, empty, on which all managers poll."""
    with redis_cli.client(redis_url) as link:
        place = PollingPlace(redis_url, link)
        yield place
        place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def threads_place(redis_url: str) -> Iterator[ThreadPlace]:
    """A real server, empty, on which all managers are for threads."""
    with redis_cli.client(redis_url) as link:
        place = ThreadPlace(redis_url, link)
        yield place
        place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def cluster_place(masters_only: Cluster) -> Iterator[ClusterPlace]:
    """A cluster of three masters, empty."""
    with redis.RedisCluster.from_url(masters_only.urls[0], socket_timeout=10.0) as link:
        place = ClusterPlace(masters_only, link)
        yield place
        place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Iterator[FilePlace]:
    """A file of its own."""
    place = FilePlace(tmp_path / "locks.db")
    yield place
    place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def postgres_place() -> Iterator[DatabasePlace]:
    """A database, empty."""
    place = DatabasePlace(postgres.dsn())
    yield place
    place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def mariadb_place() -> Iterator[MySQLPlace]:
    """A database, empty."""
    place = MySQLPlace(mysql.MARIADB)
    yield place
    place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def mysql_place() -> Iterator[MySQLPlace]:
    """A database, empty."""
    place = MySQLPlace(mysql.MYSQL)
    yield place
    place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def etcd_place() -> EtcdPlace:
    """A cluster of one, empty."""
    return EtcdPlace(etcd.shared())


@pytest.fixture
def zookeeper_place() -> ZooKeeperPlace:
    """An ensemble of one, empty."""
    return ZooKeeperPlace(zookeeper.shared())


@pytest.fixture
def quorum_place(three_urls: list[str]) -> Iterator[QuorumPlace]:
    """Three real servers, empty."""
    with ExitStack() as stack:
        links = [stack.enter_context(redis_cli.client(url)) for url in three_urls]
        place = QuorumPlace(three_urls, links)
        yield place
        place.side.close()  # type: ignore[attr-defined]


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    """Each place in turn: a primitive means the same everywhere."""
    if request.param != "memory":
        return request.getfixturevalue(f"{request.param}_place")
    skip_waits(request.getfixturevalue("_function_scoped_runner").get_loop())
    return MemoryPlace()


@pytest.fixture
def queues_place(request: pytest.FixtureRequest) -> MemoryQueuePlace:
    """A store that keeps queues itself, in this process."""
    skip_waits(request.getfixturevalue("_function_scoped_runner").get_loop())
    return MemoryQueuePlace()


@pytest.fixture
async def locks(place: Place) -> AsyncIterator[LockManager]:
    """One process's manager."""
    async with place.manager(ttl=place.ttl) as manager:
        yield manager


@pytest.fixture
async def others(place: Place) -> AsyncIterator[LockManager]:
    """Another process's manager, whose own checks are too rare to help a test."""
    async with place.manager(ttl=max(60.0, place.ttl), recheck=60.0, liveness=60.0) as manager:
        yield manager


@pytest.fixture
def here(locks: LockManager) -> Lock:
    return locks.lock("order:42")


@pytest.fixture
def there(others: LockManager) -> Lock:
    return others.lock("order:42")
