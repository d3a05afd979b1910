"""Three servers that share nothing."""

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
from .keeping import KeepingServer

COUNT = 3


class Quorum(Place):
    """Of which one may be gone at any time; two are for a while."""

    name = "quorum"
    uses = ("lock", "other", "nested", "kept")
    kinds: ClassVar = SERVER | {
        "freeze": Kind(3.0, 0.1, 5.0),
        "freeze_two": Kind(1.5, 0.1, 3.0),
        "restart": Kind(2.0, 0.0, 3.0),
        "restart_two": Kind(1.0, 0.0, 2.0),
        "restart_empty": Kind(1.0, 0.0, 2.0, empties=True),
    }

    def __init__(self, kept: list[KeepingServer]) -> None:
        self._kept = kept
        self.given = {"quorum": [one.server.url for one in kept]}
        self.ports = [one.server.port for one in kept]

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[Quorum]:
        """Start all; stop them at the end."""
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(Folder())
            kept = []
            for number in range(COUNT):
                own = folder / str(number)
                own.mkdir()
                kept.append(stack.enter_context(contextlib.closing(KeepingServer(own))))
            yield cls(kept)

    def links(self) -> list[redis.Redis]:
        return [one.link for one in self._kept]

    def clients(self) -> int:
        return sum(one.clients() for one in self._kept)

    def version(self) -> str:
        return " ".join(redis_cli.product(self._kept[0].link))

    @asynccontextmanager
    async def freeze(self, number: int, seconds: float, count: int = 1) -> AsyncIterator[None]:
        chosen = self._some(number, count)
        for one in chosen:
            one.server.freeze()
        try:
            yield
        finally:
            for one in chosen:
                one.server.thaw()

    @asynccontextmanager
    async def restart(self, number: int, seconds: float, count: int = 1, empty: bool = False) -> AsyncIterator[None]:
        chosen = self._some(number, count)
        for one in chosen:
            await asyncio.to_thread(one.server.kill)
        try:
            yield
        finally:
            for one in chosen:
                await asyncio.to_thread(one.restart, empty)

    def freeze_two(self, number: int, seconds: float) -> contextlib.AbstractAsyncContextManager[None]:
        return self.freeze(number, seconds, count=2)

    def restart_two(self, number: int, seconds: float) -> contextlib.AbstractAsyncContextManager[None]:
        return self.restart(number, seconds, count=2)

    def restart_empty(self, number: int, seconds: float) -> contextlib.AbstractAsyncContextManager[None]:
        return self.restart(number, seconds, empty=True)

    def _some(self, number: int, count: int) -> list[KeepingServer]:
        return [self._kept[(number + step) % len(self._kept)] for step in range(count)]
