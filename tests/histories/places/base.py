"""What every place of a round has."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar

import redis

from tests.support import locks
from tests.support.proxy import Framing
from tests.support.resp import Framer

from ..kinds import NETWORK, Kind


class Place(ABC):
    """Servers that workers use, and what can happen to them.

    A fault is a method that its kind names: an asynchronous context manager, at whose end all is whole again.

    Attributes:
        name: what `--place` calls it.
        kinds: the faults that it offers.
        crew: what may happen to its workers, besides what may everywhere.
        uses: what workers can use; all if empty.
        replicas: whether grants can be acknowledged by replicas.
        given: how a worker gets a manager: JSON.
        ports: of the servers, to which workers go through proxies.
        host: where the servers are; or the path of the Unix socket of the only one.
        framing: what the servers speak.
        network: what may happen between workers and servers.
    """

    name: ClassVar[str]
    kinds: ClassVar[Mapping[str, Kind]]
    crew: ClassVar[Mapping[str, Kind]] = {}
    uses: ClassVar[Sequence[str]] = ()
    replicas: ClassVar[bool] = False
    host: str = "127.0.0.1"
    framing: ClassVar[Framing] = Framer
    network: ClassVar[Mapping[str, Kind]] = NETWORK
    given: dict[str, Any]
    ports: list[int]

    @abstractmethod
    def links(self) -> list[redis.Redis]:
        """Clients of the servers that keep locks now, in an order that does not change by itself."""

    @abstractmethod
    def clients(self) -> int:
        """How many clients are connected, besides those of this object and of servers."""

    @abstractmethod
    def version(self) -> str:
        """What the servers are."""

    def held(self) -> list[str]:
        """What is held, and who waits."""
        return [name for link in self.links() for name in (*locks.held_names(link), *locks.all_waiting(link))]

    def unlimited(self) -> list[str]:
        """Every key without an expiry."""
        return [key for link in self.links() for key in locks.unlimited(link)]

    def totals(self) -> dict[str, int]:
        """Numbers that this place keeps and locks protect, by name."""
        return {}

    def broken(self) -> list[str]:
        """What must not be in what it keeps."""
        return []

    def strike(self, what: str, number: int, seconds: float) -> AbstractAsyncContextManager[None]:
        """A fault of a kind: it begins with the context and ends with it.

        Args:
            what: the kind.
            number: which server, counted modulo how many there are.
            seconds: how long it will last.
        """
        found: AbstractAsyncContextManager[None] = getattr(self, what)(number, seconds)
        return found

    # What can happen anywhere.

    @asynccontextmanager
    async def script_flush(self, number: int, seconds: float) -> AsyncIterator[None]:
        await asyncio.to_thread(self._pick(number).script_flush)
        yield

    @asynccontextmanager
    async def flush(self, number: int, seconds: float) -> AsyncIterator[None]:
        await asyncio.to_thread(self._pick(number).flushall)
        yield

    @asynccontextmanager
    async def kill_clients(self, number: int, seconds: float) -> AsyncIterator[None]:
        """Connections of clients, not those of servers, which are followers of each other."""
        link = self._pick(number)
        for type in ("normal", "pubsub"):
            await asyncio.to_thread(link.client_kill_filter, _type=type, skipme=True)
        yield

    @asynccontextmanager
    async def pause_clients(self, number: int, seconds: float) -> AsyncIterator[None]:
        """The server reads no requests, and expires no keys."""
        await asyncio.to_thread(self._pick(number).client_pause, round(seconds * 1000))
        yield

    def _pick(self, number: int) -> redis.Redis:
        links = self.links()
        return links[number % len(links)]
