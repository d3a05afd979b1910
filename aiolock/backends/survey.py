"""Plain requests to the masters that keep locks, for those who only look: no script, no subscription, no lock."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from types import TracebackType

from ..errors import AiolockError
from ..scripts.view import Command, Inspection, NameView
from .cluster.slots import SlotMap, slot_of
from .cluster.topology import Topology
from .redis import Address, ErrorReply, Link, Seeds, Sentinels, ServerConnector, refused, unconnected

Source = str | Seeds | Sentinels
BATCH = 500
"""How many names one request asks about."""


class Reader:
    """One server, asked one request at a time.

    Args:
        connector: where it is.
        timeout: seconds for each answer.

    Attributes:
        address: host and port, or the path of the socket.
        ahead_us: by how much its clock is ahead of ours, at most as wrong as a round trip is long.
    """

    def __init__(self, connector: ServerConnector, timeout: float) -> None:
        self.address: str = connector.address
        self.ahead_us: int = 0
        self._connector = connector
        self._timeout = timeout
        self._link: Link | None = None

    @property
    def now_us(self) -> int:
        """About its time, in microseconds."""
        return time.time_ns() // 1000 + self.ahead_us

    async def ask(self, commands: Sequence[Command]) -> list[object]:
        """Return the replies; an error reply is one of them.

        Raises:
            AiolockError: it is unreachable, or does not answer in time.

        Cancellation: the connection is given up. Cost: one round trip, and a connection for the first.
        """
        try:
            async with asyncio.timeout(self._timeout):
                if self._link is None:
                    self._link = await self._connector.connect()
                return await self._link.ask(commands)
        except BaseException as error:
            link, self._link = self._link, None
            if link is not None:
                link.reset()
            if not isinstance(error, Exception):
                raise
            failure = unconnected(error)
            raise failure from failure.__cause__

    async def read(self, commands: Sequence[Command]) -> list[object]:
        """Return the replies, and take note of the server's clock. Raises and costs what `ask` does.

        Raises:
            BackendError: also if it refuses one of them.
        """
        (clock, *replies) = await self.ask([("TIME",), *commands])
        for command, reply in zip([("TIME",), *commands], [clock, *replies], strict=True):
            if isinstance(reply, ErrorReply) and not str(reply).startswith("WRONGTYPE"):
                raise refused("", command[0], reply)
        self._set(clock)
        return replies

    async def inspect(self, inspections: Sequence[Inspection]) -> list[NameView | None]:
        """Return what it has of each; None of those that it does not know. Raises and costs what `read` does."""
        replies = await self.read([command for inspection in inspections for command in inspection.commands])
        views, at = [], 0
        for inspection in inspections:
            part = replies[at : at + len(inspection.commands)]
            at += len(part)
            foreign = any(isinstance(reply, ErrorReply) for reply in part)  # another program's key
            views.append(None if foreign else inspection.decode(part, self.now_us))
        return views

    async def scan(self, pattern: str, most: int = 1000) -> AsyncIterator[list[str]]:
        """Yield the keys that match, some of them twice, as one request after another finds them.

        Raises:
            BackendError: it is unreachable, or refuses.

        Cost: a round trip for every `most` keys that the server has, whatever matches.
        """
        cursor = "0"
        while True:
            match await self.read([("SCAN", cursor, "MATCH", pattern, "COUNT", str(most))]):
                case [[bytes() as following, list() as keys]]:
                    yield [key.decode() for key in keys if isinstance(key, bytes)]
                    cursor = following.decode()
                case answer:
                    raise ValueError(f"SCAN answered {answer!r}")
            if cursor == "0":
                return

    def _set(self, clock: object) -> None:
        match clock:
            case [bytes() as seconds, bytes() as micros]:
                self.ahead_us = int(seconds) * 1_000_000 + int(micros) - time.time_ns() // 1000

    async def aclose(self) -> None:
        """Close the connection."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
            with contextlib.suppress(OSError):
                await link.closed()


class Survey:
    """All masters of one source; `async with` finds and leaves them.

    Args:
        source: a URL, nodes of a cluster, or Sentinels.
        timeout: seconds for each answer.
        pushes: speak RESP3, as a manager does that is told of grants.

    Attributes:
        masters: on a cluster several.
    """

    def __init__(self, source: Source, timeout: float = 5.0, pushes: bool = False) -> None:
        self.masters: list[Reader] = []
        self._source = source
        self._timeout = timeout
        self._pushes = pushes
        self._slots: SlotMap | None = None
        self._by_address: dict[Address, Reader] = {}

    async def __aenter__(self) -> Survey:
        source = self._source
        if isinstance(source, Seeds):
            self._slots, _ = await Topology(source, self._timeout).find(self._timeout)
            for address in sorted({owner for owner in self._slots.owners if owner is not None}):
                self._by_address[address] = Reader(source.connector(address, self._pushes), self._timeout)
            self.masters = list(self._by_address.values())
        elif isinstance(source, Sentinels):
            newest = max(await source.ask(), key=lambda report: report.epoch)
            self.masters = [Reader(source.server(newest.master, self._pushes), self._timeout)]
        else:
            self.masters = [Reader(ServerConnector(source, self._pushes), self._timeout)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for master in self.masters:
            await master.aclose()

    def serving(self, key: str) -> Reader:
        """The master that has a key.

        Raises:
            AiolockError: no node of the cluster serves its slot.
        """
        if self._slots is None:
            return self.masters[0]
        owner = self._slots.owners[slot_of(key)]
        if owner is None:
            raise AiolockError("", f"no node of the cluster serves slot {slot_of(key)}")
        return self._by_address[owner]
