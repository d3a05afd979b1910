"""Places whose stores keep the queues themselves: in memory, on etcd, and on ZooKeeper."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import unquote

from kazoo.exceptions import NoNodeError

from aiolock import LockManager
from aiolock.backends.coordinator import CoordinatorBackend
from aiolock.backends.coordinator.paths import Paths
from aiolock.backends.coordinator.store import Last, OwnPlace
from aiolock.backends.coordinator.store import Place as Seat
from aiolock.backends.coordinator.values import value_of
from aiolock.backends.zookeeper.names import HELD, nodes_in, prefix_of
from aiolock.scripts.base import Call
from aiolock.scripts.keys import Keys
from aiolock.scripts.outcomes import Granted, Queued
from tests.support.etcd import Etcd
from tests.support.locks import LockState
from tests.support.queue_store import Queues, QueueStore
from tests.support.skipping import SkippingClock
from tests.support.zookeeper import ZooKeeper

KEYS = Keys("aiolock")
PATHS = Paths("aiolock")


class QueueServer(Protocol):
    """Where the queues are, behind the managers' backs."""

    def view(self, path: str) -> Sequence[Seat]:
        """The places of a name, first to last."""

    def take(self, path: str, owner: str, ttl_ms: int, weight: int, capacity: int, note: str) -> int:
        """Take a place in the name of a process that is no manager; return its order."""

    def remove(self, path: str, owner: str) -> None:
        """End a place."""

    def last(self, path: str) -> int:
        """The fence of the last one that had all of a name."""

    def flush(self) -> None:
        """Lose all data."""

    def paths(self) -> set[str]:
        """Every name in which there is something."""


class QueueSide:
    """Does to queues what tests do to keys of Redis, as far as there is such a thing.

    Args:
        server: where they are.
    """

    def __init__(self, server: QueueServer) -> None:
        self.server = server

    @staticmethod
    def path(key: str) -> str:
        """The queue of the name that a key is about."""
        kind, name = KEYS.read(key) or ("", "")
        return PATHS.of(kind, name)

    def exists(self, key: str) -> bool:
        return bool(self.server.view(self.path(key)))

    def scores(self, key: str) -> dict[str, int]:
        """The waiters in a lock's queue."""
        return {place.owner: place.order for place in self.server.view(self.path(key))[1:]}

    def flush(self) -> None:
        self.server.flush()

    def delete(self, *keys: str) -> None:
        for path in {self.path(key) for key in keys}:
            for place in self.server.view(path)[:1]:
                self.server.remove(path, place.owner)

    def run(self, call: Call[Any]) -> Any:
        """Steal it, wait for it, or give it back: nothing else is known here."""
        path = self.path(call.keys[0])
        of_lock = path.split("/")[1] == "lock"
        words = call.args if of_lock else call.args[1:]
        owner = str(words[0])
        if call.script.name.startswith("release"):
            return self.server.remove(path, owner)
        assert call.script.name.startswith("acquire"), call
        ttl_ms, metadata, weight, capacity = int(words[1]), str(words[3 if of_lock else -1]), 1, 1
        liveness_ms = 1_000
        if not of_lock:
            weight, capacity, liveness_ms = int(words[4]), int(words[7]), int(words[9])
        used = sum(place.weight for place in self.server.view(path))
        if used + weight <= capacity:
            return Granted(self.server.take(path, owner, ttl_ms, weight, capacity, metadata), ttl_ms, False)
        return Queued(0, self.server.take(path, owner, min(ttl_ms, liveness_ms), weight, capacity, metadata))


class QueuePlace:
    """A place whose store keeps queues.

    Args:
        server: the store, as tests see it.
    """

    ttl = 6.0
    grace_ms = 0

    def __init__(self, server: QueueServer) -> None:
        self.server = server
        self.side: Any = QueueSide(server)

    def manager(self, **options: Any) -> LockManager:
        raise AssertionError("each place makes its own")

    def keys(self) -> set[str]:
        namespaces = {path: unquote(path.partition("/")[0]) for path in self.server.paths()}
        return {Keys(namespace).of(*Paths(namespace).read(path)).lock for path, namespace in namespaces.items()}

    def _queue(self, name: str) -> Sequence[Seat]:
        return self.server.view(PATHS.of("lock", name))

    def state(self, name: str) -> LockState:
        for place in self._queue(name)[:1]:
            return LockState(place.owner, place.depth, int(self.ttl * 1000), place.order, False, place.note)
        return LockState(fence=self.server.last(PATHS.of("lock", name)))

    def waiting(self, name: str) -> list[str]:
        return [place.owner for place in self._queue(name)[1:]]

    def gone(self, name: str) -> bool:
        return not self._queue(name)

    def settled(self, name: str) -> bool:
        return True

    def listeners(self, name: str, kind: str = "lock") -> int:
        return len({owner.partition(":")[0] for owner in self.waiting(name)})


class _Memory:
    def __init__(self) -> None:
        self.queues = Queues(SkippingClock())

    def view(self, path: str) -> Sequence[Seat]:
        return self.queues.queue(path)

    def take(self, path: str, owner: str, ttl_ms: int, weight: int, capacity: int, note: str) -> int:
        queues, key = self.queues, f"{path}/{owner}"
        queues.revision += 1
        queues.places[path][key] = Seat(key, owner, queues.revision, weight, capacity, 1, note)
        queues.last[path] = Last(queues.revision, held=True)
        queues.prolong(key, ttl_ms)
        return queues.revision

    def remove(self, path: str, owner: str) -> None:
        self.queues.drop(path, f"{path}/{owner}")

    def last(self, path: str) -> int:
        return self.queues.last.get(path, Last()).fence

    def flush(self) -> None:
        self.queues.forget()

    def paths(self) -> set[str]:
        return {path for path in list(self.queues.places) if self.queues.queue(path)}


class MemoryQueuePlace(QueuePlace):
    """Queues in this process, with a clock that skips waits."""

    def __init__(self) -> None:
        self.memory = _Memory()
        super().__init__(self.memory)

    def manager(self, **options: Any) -> LockManager:
        namespace = options.get("namespace", "aiolock")
        return LockManager(CoordinatorBackend(QueueStore(self.memory.queues), namespace), **options)


class _Etcd:
    """A cluster, asked for JSON."""

    def __init__(self, cluster: Etcd) -> None:
        self.cluster = cluster

    def view(self, path: str) -> Sequence[Seat]:
        found = []
        for pair in self.cluster.pairs(f"{path}/", f"{path}0"):
            weight, capacity, depth, note = json.loads(pair["value"])
            owner = pair["key"].rpartition("/")[2]
            found.append(Seat(pair["key"], owner, int(pair["create_revision"]), weight, capacity, depth, note))
        return found

    def take(self, path: str, owner: str, ttl_ms: int, weight: int, capacity: int, note: str) -> int:
        order = self.cluster.put(f"{path}/{owner}", json.dumps([weight, capacity, 1, note]), -(-ttl_ms // 1000))
        if not any(place.order < order for place in self.view(path)):
            self.cluster.put(f"{path}#last", f"held {order}")
        return order

    def remove(self, path: str, owner: str) -> None:
        self.cluster.delete(f"{path}/{owner}")

    def last(self, path: str) -> int:
        for pair in self.cluster.pairs(f"{path}#last"):
            return int(pair["value"].partition(" ")[2] or pair["mod_revision"])
        return self.cluster.revision()  # a lock that was released leaves nothing

    def flush(self) -> None:
        self.cluster.delete("\0", "\xff")

    def paths(self) -> set[str]:
        keys = [pair["key"] for pair in self.cluster.pairs("\0", "\xff")]
        return {key.rpartition("/")[0] for key in keys if key.count("/") == 3}


class EtcdPlace(QueuePlace):
    """A cluster of etcd, empty."""

    def __init__(self, cluster: Etcd) -> None:
        super().__init__(_Etcd(cluster))
        self.url = cluster.url
        self.server.flush()

    def manager(self, **options: Any) -> LockManager:
        return LockManager(self.url, **options)


class _ZooKeeper:
    """An ensemble, asked by kazoo."""

    def __init__(self, ensemble: ZooKeeper) -> None:
        self.ensemble = ensemble

    def view(self, path: str) -> Sequence[Seat]:
        found = []
        for node in nodes_in(self.ensemble.children(f"/{path}")):
            with contextlib.suppress(NoNodeError):
                data, stat = self.ensemble.client.get(f"/{path}/{node.name}")
                weight, capacity, depth, note, _ = json.loads(data)
                found.append(Seat(node.name, node.owner, stat.czxid, weight, capacity, depth, note))
        return found

    def take(self, path: str, owner: str, ttl_ms: int, weight: int, capacity: int, note: str) -> int:
        own = OwnPlace(path, owner, ttl_ms, weight, capacity, note, floor=0, shared=path.split("/")[1] == "rw")
        client = self.ensemble.client
        client.ensure_path(f"/{path}")
        node = self.ensemble.plant(f"/{path}/{prefix_of(own)}", value_of(own, ttl_ms), ttl_ms / 1000)
        order = int(client.exists(node).czxid)
        if own.whole and not any(place.order < order for place in self.view(path)):
            client.ensure_path(f"/{path}/{HELD}")
            client.set(f"/{path}/{HELD}", b"%d" % order)
        return order

    def remove(self, path: str, owner: str) -> None:
        for node in nodes_in(self.ensemble.children(f"/{path}")):
            if node.owner == owner:
                self.ensemble.client.delete(f"/{path}/{node.name}")

    def last(self, path: str) -> int:
        for node in (f"/{path}/{HELD}", f"/{path}"):
            with contextlib.suppress(NoNodeError):
                data, stat = self.ensemble.client.get(node)
                return int(data or stat.pzxid)
        return 0

    def flush(self) -> None:
        self.ensemble.flush()

    def paths(self) -> set[str]:
        spaces = [name for name in self.ensemble.children("/") if name != "zookeeper"]
        kinds = [f"{space}/{kind}" for space in spaces for kind in self.ensemble.children(f"/{space}") if kind != "#"]
        names = [f"{kind}/{name}" for kind in kinds for name in self.ensemble.children(f"/{kind}")]
        return {name for name in names if self.view(name)}


class ZooKeeperPlace(QueuePlace):
    """An ensemble of ZooKeeper, empty."""

    def __init__(self, ensemble: ZooKeeper) -> None:
        super().__init__(_ZooKeeper(ensemble))
        self.url = ensemble.url
        self.server.flush()

    def manager(self, **options: Any) -> LockManager:
        return LockManager(self.url, **options)
