"""The loop as asyncpg sees it while it connects: host names are not looked up in the threads of the application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..resolver import Resolver


class ResolvingLoop:
    """Does what the loop does, but connects by a `Resolver`. Whom a certificate must name stays the host.

    Args:
        loop: the running one.
        resolver: looks up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, resolver: Resolver) -> None:
        self._loop = loop
        self._resolver = resolver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def create_future(self) -> asyncio.Future[Any]:
        """See the loop's. If nobody waits for the connection any more, nobody hears how it ended."""
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    async def create_connection(
        self, made: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
    ) -> Any:
        """See the loop's."""
        opened = await self._resolver.connect(host, int(port))
        if options.get("ssl"):
            options.setdefault("server_hostname", host)
        try:
            return await self._loop.create_connection(made, sock=opened, **options)
        except BaseException:
            opened.close()
            raise
