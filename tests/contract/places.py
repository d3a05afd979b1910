"""Where the contract is checked: a place makes managers that see each other's locks, and shows what is behind them."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any, Protocol
from uuid import uuid4

import redis

from aiolock import LockManager
from aiolock.backends.memory import named_store
from aiolock.scripts.keys import Keys, NameKeys
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcomes import Granted
from tests.support.scripting import LuaSide, Side, TwinSide

KEYS = Keys("aiolock")


def keys_of(name: str, kind: str = "lock") -> NameKeys:
    return KEYS.of(kind, name)


async def until(check: Callable[[], object], seconds: float = 10.0) -> None:
    """Poll for what nobody announces."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - what servers and processes do sets no event here
            await asyncio.sleep(0.002)


class Place(Protocol):
    """One store that several managers share.

    Attributes:
        side: runs scripts behind the managers' backs and looks at single keys.
    """

    side: Side

    def manager(self, **options: Any) -> LockManager: ...

    def keys(self) -> set[str]:
        """Every key there is."""

    def listeners(self, name: str, kind: str = "lock") -> int:
        """How many managers wait for what is called `name`."""


class MemoryPlace:
    """A store of this process, on the real clock."""

    def __init__(self) -> None:
        self._name = uuid4().hex
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # that it does not cross processes
            self._store = named_store(self._name)
        self.side: Side = _TwinOf(self._store)

    def manager(self, **options: Any) -> LockManager:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return LockManager(f"memory://{self._name}", **options)

    def keys(self) -> set[str]:
        return set(self._store.keys())

    def listeners(self, name: str, kind: str = "lock") -> int:
        return self._store.numsub(keys_of(name, kind).free)


class _TwinOf(TwinSide):
    def __init__(self, store: Any) -> None:
        super().__init__()
        self.store = store


class RedisPlace:
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
        ((_, count),) = self.link.pubsub_numsub(keys_of(name, kind).free)
        return int(count)


def steal(place: Place, name: str, ttl_ms: int = 30_000, metadata: str = "a thief") -> int:
    """Take a lock away from whoever has it, as somebody whom no manager here knows; answers the fence."""
    place.side.delete(keys_of(name).lock)
    grant = place.side.run(LockCalls(KEYS, name).acquire("thief:1", ttl_ms, 0, metadata))
    assert isinstance(grant, Granted)
    return grant.fence


def give_back(place: Place, name: str) -> None:
    """The thief releases."""
    place.side.run(LockCalls(KEYS, name).release("thief:1", 30_000, 0, "clean", False))
