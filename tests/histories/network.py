"""The network between workers and servers: a proxy for each worker and server, and a loop that knows the way."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from tests.support.proxy import FaultProxy, Framing


class RoutedLoop(asyncio.SelectorEventLoop):
    """Connects to another port of this machine than it is told.

    Servers name each other to clients, so a client that knows a proxy of one would reach the next without it.

    Args:
        routes: the port to take for each port.
    """

    def __init__(self, routes: dict[int, int]) -> None:
        super().__init__()
        self._routes = routes

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """However a driver connects, it comes here."""
        if sock.family != socket.AF_UNIX:
            host, port, *more = address
            address = host, self._routes.get(port, port), *more
        await super().sock_connect(sock, address)


class Network:
    """The proxies.

    Args:
        ports: of the servers.
        framing: what they speak.
        host: where they are; or the path of the Unix socket of the only one.
    """

    def __init__(self, ports: Sequence[int], framing: Framing, host: str) -> None:
        self._ports = list(ports)
        self._framing = framing
        self._host = host
        self._lines: dict[int, dict[int, FaultProxy]] = {}
        self._stack = AsyncExitStack()

    async def routes(self, worker: int) -> dict[int, int]:
        """The way of one worker to each server."""
        if worker not in self._lines:
            self._lines[worker] = {
                port: await self._stack.enter_async_context(FaultProxy(self._host, port, framing=self._framing))
                for port in self._ports
            }
        return {port: proxy.port for port, proxy in self._lines[worker].items()}

    def lines(self, worker: int | None = None, port: int | None = None) -> list[FaultProxy]:
        """The proxies of one worker or of all, to one server or to all."""
        chosen = self._lines if worker is None else {worker: self._lines[worker]}
        return [proxy for line in chosen.values() for at, proxy in line.items() if port in (None, at)]

    async def aclose(self) -> None:
        for proxy in self.lines():
            proxy.heal()
        await self._stack.aclose()

    def strike(self, what: str, number: int, seconds: float) -> AbstractAsyncContextManager[None]:
        """A fault of a kind: it begins with the context and ends with it.

        Args:
            what: the kind.
            number: which worker, counted modulo one more than there are: that one more is all of them.
            seconds: how long it will last.
        """
        workers = [*self._lines, None]
        found: AbstractAsyncContextManager[None] = getattr(self, what)(self.lines(workers[number % len(workers)]))
        return found

    @asynccontextmanager
    async def reset(self, lines: list[FaultProxy]) -> AsyncIterator[None]:
        """Connections die."""
        for line in lines:
            line.reset()
        yield

    @asynccontextmanager
    async def double(self, lines: list[FaultProxy]) -> AsyncIterator[None]:
        """The client's side dies, the server's does not: it has two connections of one client, and gets on the older
        one what was held, late.
        """
        for line in lines:
            line.hold("requests", 2)
        await asyncio.sleep(0.05)
        for line in lines:
            line.reset(upstream=False)
        yield
        for line in lines:
            line.heal()

    @asynccontextmanager
    async def drop_requests(self, lines: list[FaultProxy]) -> AsyncIterator[None]:
        """One is lost, and all that follows."""
        for line in lines:
            line.drop("requests")
        yield
        self._begin_anew(lines)

    @asynccontextmanager
    async def drop_replies(self, lines: list[FaultProxy]) -> AsyncIterator[None]:
        """One is lost, and all that follows."""
        for line in lines:
            line.drop("replies")
        yield
        self._begin_anew(lines)

    @asynccontextmanager
    async def lose_replies(self, lines: list[FaultProxy]) -> AsyncIterator[None]:
        """A request is executed, but not answered."""
        for line in lines:
            line.lose_reply(2)
        yield
        self._begin_anew(lines)

    @asynccontextmanager
    async def cut(self, lines: list[FaultProxy]) -> AsyncIterator[None]:
        """A request is executed, and a reset takes the place of its answer; three times."""
        for line in lines:
            line.cut(3)
        yield
        self._begin_anew(lines)

    @asynccontextmanager
    async def hold_requests(self, lines: list[FaultProxy]) -> AsyncIterator[None]:
        """They arrive late; nothing is lost."""
        for line in lines:
            line.hold("requests")
        yield
        for line in lines:
            line.heal()

    @asynccontextmanager
    async def hold_replies(self, lines: list[FaultProxy]) -> AsyncIterator[None]:
        """They arrive late; nothing is lost."""
        for line in lines:
            line.hold("replies")
        yield
        for line in lines:
            line.heal()

    @asynccontextmanager
    async def delay(self, lines: list[FaultProxy]) -> AsyncIterator[None]:
        """Everything takes longer."""
        for number, line in enumerate(lines):
            line.delay("requests", 0.01 * (1 + number % 7))
            line.delay("replies", 0.02 * (1 + number % 5))
        yield
        for line in lines:
            line.heal()

    @asynccontextmanager
    async def partition(self, lines: list[FaultProxy]) -> AsyncIterator[None]:
        """Nothing passes, in either direction, and nobody is told."""
        for line in lines:
            line.blackhole("requests")
            line.blackhole("replies")
        yield
        self._begin_anew(lines)

    @staticmethod
    def _begin_anew(lines: list[FaultProxy]) -> None:
        """Forward everything. A connection that lost a frame would be silent for good, as no real one is."""
        for line in lines:
            line.heal()
            line.reset()
