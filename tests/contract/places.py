"""Where the contract is checked: a place makes managers that see each other's locks, and shows what is behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
import redis

from aiolock import Lease, LockManager, Poll
from aiolock.backends.memory import MemoryBackend
from aiolock.primitives.latch_watcher import LatchWatcher
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import DIRTY_MS, GRACE_MS, Keys, NameKeys
from aiolock.scripts.lock import LockCalls, confirm
from aiolock.scripts.outcomes import Granted
from tests.support import locks as kept
from tests.support import mysql
from tests.support.cluster import Cluster
from tests.support.database import DatabaseSide
from tests.support.filed import FileSide
from tests.support.locks import LockState
from tests.support.mysql_side import MySQLSide
from tests.support.scripting import LuaSide, Side, StoreSide
from tests.support.skipping import SkippingClock, skipping_store

KEYS = Keys("aiolock")
TTL = 6.0
"""Seconds: for the managers of the contract. No test takes that long, and no machine stands still for that long."""
TTL_MS = 6000
SHORT = 4.5
"""Seconds: the ttl of a lease that waits for a renewal. More than two seconds lie between the renewal and the deadline,
so a noisy machine may stand still for that long.
"""
LIVENESS_MS = 3_000
"""How long scripts that tests run themselves say that a process lives."""


def keys_of(name: str, kind: str = "lock") -> NameKeys:
    return KEYS.of(kind, name)


async def until(check: Callable[[], object], seconds: float = 10.0) -> None:
    """Poll for a change that is not announced."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - what servers and processes do sets no event here
            await asyncio.sleep(0.002)


def renew_now(*leases: Lease) -> None:
    """Make the next renewal of all these leases due in this turn, instead of after a third of the ttl."""
    for lease in leases:
        lease._hold.verify()


async def renewed(*leases: Lease) -> None:
    """Wait until a renewal of each lease was answered."""
    expiries = [lease._hold.expiry for lease in leases]
    renew_now(*leases)
    await until(lambda: all(lease._hold.expiry > expiry for lease, expiry in zip(leases, expiries, strict=True)))


nobody_waits = pytest.mark.not_polling("there are no waiters")
waits = pytest.mark.not_in_threads("it waits for the server for long, as elsewhere")
cancels = pytest.mark.not_in_threads("a thread cannot be cancelled")
revoked = pytest.mark.not_polling("a revocation is noticed at the next renewal: tests/contract/test_poll.py")


class Place(Protocol):
    """One store that several managers share.

    Attributes:
        side: runs scripts behind the managers' backs and looks at single keys.
        ttl: seconds, for the contract's managers.
        grace_ms: how long a clean name is remembered beyond its ttl, at most.
    """

    side: Side
    ttl: float
    grace_ms: int

    def manager(self, **options: Any) -> LockManager: ...

    def keys(self) -> set[str]:
        """Every key in the store."""

    def state(self, name: str) -> LockState:
        """What is kept of the lock."""

    def waiting(self, name: str) -> list[str]:
        """The owners in the lock's queue, first to last."""

    def gone(self, name: str) -> bool:
        """The lock is held on none of its servers."""

    def settled(self, name: str) -> bool:
        """All of its servers say the same of the last hold."""

    def listeners(self, name: str, kind: str = "lock") -> int:
        """How many managers wait for `name`."""


class OneServer:
    """What is behind a name, where one server has all of it."""

    ttl = TTL
    grace_ms = GRACE_MS
    side: Side

    def state(self, name: str) -> LockState:
        return kept.state(self.side, name)

    def waiting(self, name: str) -> list[str]:
        return kept.waiting(self.side, name)

    def gone(self, name: str) -> bool:
        return not self.state(name).holder

    def settled(self, name: str) -> bool:
        return True


class MemoryPlace(OneServer):
    """A store in this process, with a clock that skips waits: see `skip_waits`."""

    def __init__(self) -> None:
        self._store = skipping_store()
        self.side: Side = _StoreOf(self._store)

    def manager(self, **options: Any) -> LockManager:
        return LockManager(MemoryBackend(self._store, SkippingClock()), **options)

    def keys(self) -> set[str]:
        return set(self._store.keys())

    def listeners(self, name: str, kind: str = "lock") -> int:
        return _processes(self, name) if kind == "lock" else self._store.numsub(keys_of(name, kind).free)


class _StoreOf(StoreSide):
    def __init__(self, store: Any) -> None:
        super().__init__()
        self.store = store


class RedisPlace(OneServer):
    """A real server.

    Args:
        url: its address.
        link: a blocking client of it.
        options: of every manager.
    """

    def __init__(self, url: str, link: redis.Redis, **options: Any) -> None:
        self.url = url
        self.options = options
        self.link = link
        self.side: Side = LuaSide(link)

    def manager(self, **options: Any) -> LockManager:
        return LockManager(self.url, **self.options, **options)

    def keys(self) -> set[str]:
        return {key.decode(errors="surrogateescape") for key in self.link.keys("*")}

    def listeners(self, name: str, kind: str = "lock") -> int:
        return _processes(self, name) if kind == "lock" else self.subscribers(keys_of(name, kind).free)

    def subscribers(self, channel: str) -> int:
        ((_, count),) = self.link.pubsub_numsub(channel)
        return int(count)


class ClusterPlace(OneServer):
    """Three masters; all keys of a name are on one of them.

    Args:
        cluster: the servers.
        link: a blocking client of the cluster.
    """

    def __init__(self, cluster: Cluster, link: redis.RedisCluster) -> None:
        self.cluster = cluster
        self.side: Side = LuaSide(link)

    def manager(self, **options: Any) -> LockManager:
        return LockManager.cluster(self.cluster.urls[:1], **options)

    def keys(self) -> set[str]:
        return self.cluster.keys()

    def listeners(self, name: str, kind: str = "lock") -> int:
        if kind == "lock":
            return _processes(self, name)
        return self.subscribers(keys_of(name, kind).free)

    def subscribers(self, channel: str) -> int:
        return int(self.cluster.master_of(channel).ask("PUBSUB", "NUMSUB", channel)[1])


class PollingPlace(RedisPlace):
    """A real server whose pub/sub is not used: every manager asks again and again, and often."""

    def __init__(self, url: str, link: redis.Redis) -> None:
        super().__init__(url, link, waiting=Poll(first=0.002, cap=0.02))
        self._managers: list[LockManager] = []

    def manager(self, **options: Any) -> LockManager:
        manager = super().manager(**options)
        self._managers.append(manager)
        return manager

    def listeners(self, name: str, kind: str = "lock") -> int:
        if kind == "lock":
            return super().listeners(name)
        return sum(_watches(manager, name, kind) for manager in self._managers)


def _watches(manager: LockManager, name: str, kind: str) -> bool:
    """A task of the manager waits for a latch, and the server has confirmed it."""
    watcher = manager._runtime.gates.get((kind, name))
    return watcher is not None and cast(LatchWatcher, watcher).seen is not None


def _processes(place: Place, name: str) -> int:
    return len({owner.partition(":")[0] for owner in place.waiting(name)})


class QuorumPlace:
    """Three real servers, of which two decide.

    Args:
        urls: their addresses.
        links: a blocking client of each.
    """

    ttl = TTL
    grace_ms = DIRTY_MS

    def __init__(self, urls: Sequence[str], links: Sequence[redis.Redis]) -> None:
        self.nodes = [RedisPlace(url, link) for url, link in zip(urls, links, strict=True)]
        self.side: Side = _EverySide([node.side for node in self.nodes])

    def manager(self, **options: Any) -> LockManager:
        return LockManager.quorum([node.url for node in self.nodes], **options)

    def keys(self) -> set[str]:
        return set().union(*(node.keys() for node in self.nodes))

    def listeners(self, name: str, kind: str = "lock") -> int:
        return sorted(node.subscribers(keys_of(name, kind).free) for node in self.nodes)[1]

    def state(self, name: str) -> LockState:
        """The state that ranks in the middle by the rest of its hold, and without a hold by how long it is kept."""
        return sorted((node.state(name) for node in self.nodes), key=lambda state: (state.pttl, state.kept))[1]

    def waiting(self, name: str) -> list[str]:
        return []  # a quorum has no queue

    def gone(self, name: str) -> bool:
        return all(node.gone(name) for node in self.nodes)

    def settled(self, name: str) -> bool:
        states = [node.state(name) for node in self.nodes]
        return len({(state.holder, state.dirty) for state in states}) == 1


class _EverySide:
    """Does everything on all three, and looks at what two of them say."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self._sides = sides

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def on_all(*args: Any) -> Any:
            answers = [getattr(side, name)(*args) for side in self._sides]
            return next((answer for answer in answers if answers.count(answer) > 1), answers[0])

        return on_all

    def run(self, call: Call[Any]) -> Any:
        answers = [side.run(call) for side in self._sides]
        if isinstance(answers[0], Granted):
            agreed = max(answer.fence for answer in answers)
            for side, answer in zip(self._sides, answers, strict=True):
                side.run(confirm(call, answer.fence, agreed))
            return replace(answers[0], fence=agreed)
        return answers[0]

    def pttl(self, key: str) -> int:
        return sorted(side.pttl(key) for side in self._sides)[1]


def steal(place: Place, name: str, ttl_ms: int = 30_000, metadata: str = "a thief") -> int:
    """Take a lock from its holder, in the name of an unknown owner; return the fence."""
    place.side.delete(keys_of(name).lock)
    grant = place.side.run(LockCalls(KEYS, name, LIVENESS_MS).acquire(Bid("thief:1", ttl_ms, 0, metadata)))
    assert isinstance(grant, Granted)
    return grant.fence


def give_back(place: Place, name: str) -> None:
    """Release the thief's lock."""
    place.side.run(LockCalls(KEYS, name, LIVENESS_MS).release("thief:1", 30_000, 0, "clean", False))


class FilePlace(OneServer):
    """A file, seen through an engine of its own.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self.side: Side = FileSide(path)

    def manager(self, **options: Any) -> LockManager:
        return LockManager(self.url, **options)

    def keys(self) -> set[str]:
        return self.side.keys()  # type: ignore[attr-defined,no-any-return]

    def listeners(self, name: str, kind: str = "lock") -> int:
        if kind == "lock":
            return _processes(self, name)
        return self.side.listeners(keys_of(name, kind).free)  # type: ignore[attr-defined,no-any-return]


class DatabasePlace(FilePlace):
    """A database of PostgreSQL.

    Args:
        url: its address.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.side: Side = DatabaseSide(url)


class MySQLPlace(FilePlace):
    """A database of MariaDB or MySQL.

    Args:
        product: which of them.
    """

    def __init__(self, product: mysql.Product) -> None:
        self.url = mysql.url(product=product)
        self.side: Side = MySQLSide(mysql.port(product), mysql.name(product))
