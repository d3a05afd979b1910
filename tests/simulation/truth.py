"""What a server keeps, whatever kind it is of: the models ask it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from aiolock.scripts.queue.records import Holder, read
from aiolock.scripts.redisson.keys import RedissonKeys
from aiolock.scripts.store import Store
from tests.support import locks, redisson_wire

from .drawing import ON_REDISSON

PERMITS = 3
"""The capacity of each semaphore."""


class Truth(Protocol):
    """What is kept."""

    def kept(self, kind: str, name: str, owner: str) -> int:
        """For how many ms the server keeps the owner's hold."""

    def taken(self, kind: str, name: str) -> bool:
        """Whether anybody has it."""

    def owners(self) -> Iterator[tuple[str, str]]:
        """Whose end somebody must see to, and where each is kept."""

    def dead(self) -> set[str]:
        """Owners of which no late request may do anything."""

    def held(self) -> list[str]:
        """What somebody has."""

    def left(self) -> str:
        """What is held or awaited, in words; "" if there is nothing."""

    def wrong(self, calm: bool) -> str:
        """What must not be there when all processes have closed; "" if there is nothing."""

    def known(self) -> str:
        """Managers that count as alive, in words; "" if there are none."""


class RedisTruth:
    """The keys of scripts.

    Args:
        store: where they are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def kept(self, kind: str, name: str, owner: str) -> int:
        store = self._store
        if kind.startswith("redisson"):
            return redisson_wire.kept(store, kind, name, owner)
        if kind == "lock":
            state = locks.state(store, name)
            return state.pttl if state.holder == owner else 0
        key, order = locks.KEYS.of(kind, name).queue
        if not isinstance(read(store.hget(key, owner)), Holder):
            return 0
        return max(0, (store.zscore(order, owner) or 0) - store.wall_us() // 1000)

    def taken(self, kind: str, name: str) -> bool:
        store = self._store
        if kind == "redisson permits":
            return store.get(name) != str(PERMITS)
        return store.exists(name) if kind.startswith("redisson") else locks.held(store, name)

    def owners(self) -> Iterator[tuple[str, str]]:
        for key in locks.held_names(self._store):
            yield from ((owner, key) for owner in locks.holders(self._store, key))
        yield from redisson_wire.holders(self._store)

    def dead(self) -> set[str]:
        own = {key.partition(":dead:")[2] for key in locks.tombstones(self._store)}
        return own | set(redisson_wire.tombstones(self._store))

    def held(self) -> list[str]:
        return [*locks.held_names(self._store), *map(str, redisson_wire.holders(self._store))]

    def left(self) -> str:
        held = self.held()
        if not held and locks.nothing_held(self._store):
            return ""
        return f"{held} {locks.all_waiting(self._store)}"

    def wrong(self, calm: bool) -> str:
        store, number = self._store, ON_REDISSON["permits"][1]
        free = store.get(number)
        store.delete(number)
        if calm and free not in (None, str(PERMITS)):
            return f"{free} of {PERMITS} permits are free at the end"
        if not calm:  # whoever died, or closed while the server was away, is forgotten by the next that comes
            store.delete(RedissonKeys(number).permits)
            for key in redisson_wire.waiting(store):
                store.delete(key)
        endless = locks.unlimited(store)
        return f"keys that never expire: {endless}" if endless else ""

    def known(self) -> str:
        store = self._store
        alive = {key: list(store.hgetall(key)) for key in sorted(store.keys()) if key.endswith(":alive")}
        return str(alive) if alive else ""
