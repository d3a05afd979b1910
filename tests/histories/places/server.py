"""One server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import ClassVar

import redis

from tests.support import redis_cli
from tests.support.folder import Folder

from ..kinds import SERVER, Kind
from .base import Place
from .keeping import POSSIBLE, KeepingServer

STEPS = (-8.0, -1.5, 1.5, 8.0)
"""Seconds."""


class OneServer(Place):
    """A server that may be frozen, killed, and started again with its data or without."""

    name = "server"
    kinds: ClassVar = (
        SERVER
        | {
            "freeze": Kind(2.0, 0.1, 4.0),
            "restart": Kind(2.0, 0.0, 2.0),
            "restart_empty": Kind(1.0, 0.0, 2.0, empties=True),
        }
        | ({"step_clock": Kind(1.5, 0.1, 3.0, empties=True)} if POSSIBLE else {})
    )

    def __init__(self, kept: KeepingServer) -> None:
        self._kept = kept
        self.given = {"url": kept.server.url}
        self.ports = [kept.server.port]

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[OneServer]:
        """Start it; stop it at the end."""
        with Folder() as folder:
            own = folder / "data"
            own.mkdir()
            kept = KeepingServer(own)
            with contextlib.closing(kept):
                yield cls(kept)

    def links(self) -> list[redis.Redis]:
        return [self._kept.link]

    def clients(self) -> int:
        return self._kept.clients()

    def version(self) -> str:
        return " ".join(redis_cli.product(self._kept.link))

    @asynccontextmanager
    async def freeze(self, number: int, seconds: float) -> AsyncIterator[None]:
        self._kept.server.freeze()
        try:
            yield
        finally:
            self._kept.server.thaw()

    @asynccontextmanager
    async def restart(self, number: int, seconds: float, empty: bool = False) -> AsyncIterator[None]:
        await asyncio.to_thread(self._kept.server.kill)
        try:
            yield
        finally:
            await asyncio.to_thread(self._kept.restart, empty)

    @asynccontextmanager
    async def step_clock(self, number: int, seconds: float) -> AsyncIterator[None]:
        """By seconds, forward or back, and again at the end: what is held may end early, or late."""
        await asyncio.to_thread(self._kept.step, STEPS[number % len(STEPS)])
        try:
            yield
        finally:
            await asyncio.to_thread(self._kept.step, 0.0)

    def restart_empty(self, number: int, seconds: float) -> contextlib.AbstractAsyncContextManager[None]:
        return self.restart(number, seconds, empty=True)
