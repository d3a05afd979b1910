"""The way of workers to servers leads through proxies."""

from __future__ import annotations

import asyncio
import socket

from aiolock.backends.resolver import Resolver

from .network import RoutedLoop


def test_however_one_connects() -> None:
    """By a name, or with a socket of one's own, as PostgreSQL's sessions do. Kept by RoutedLoop.sock_connect."""
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen()
        loop = RoutedLoop({1: proxy.getsockname()[1]})

        async def connect() -> None:
            transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", 1)
            transport.close()
            (await Resolver().connect("127.0.0.1", 1)).close()

        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(connect())
