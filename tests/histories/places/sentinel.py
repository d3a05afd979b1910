"""A master, its replica, and three Sentinels."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import ClassVar

import redis

from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.sentinels import SentinelSet, start_sentinels

from ..kinds import SERVER, Kind
from .base import Place
from .waiting import until


class Watched(Place):
    """The master dies, freezes, and is replaced; Sentinels freeze."""

    name = "sentinel"
    replicas = True
    kinds: ClassVar = SERVER | {
        "freeze": Kind(1.5, 0.1, 1.0),
        "freeze_sentinel": Kind(1.0, 0.5, 4.0),
        "restart_sentinel": Kind(1.0, 0.0, 3.0),
        "freeze_until_replaced": Kind(1.0, replaces=True),
        "kill": Kind(1.5, replaces=True),
        "failover": Kind(1.5, replaces=True),
        "restart_empty": Kind(0.7, empties=True),
    }

    def __init__(self, sentinels: SentinelSet) -> None:
        self._set = sentinels
        self.given = {"sentinels": sentinels.addresses, "service": sentinels.service}
        self.ports = [server.port for server in (*sentinels.servers, *sentinels.sentinels)]

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[Watched]:
        """Start all five; stop them at the end."""
        with start_sentinels(down_after=1.5, failover_timeout=2.0) as sentinels:
            yield cls(sentinels)

    def links(self) -> list[redis.Redis]:
        return [self._set.link(self._set.master())]

    def clients(self) -> int:
        return sum(self._set.clients(server) for server in (*self._set.servers, *self._set.sentinels))

    def version(self) -> str:
        return " ".join(redis_cli.product(self._set.link(self._set.servers[0])))

    @asynccontextmanager
    async def freeze(self, number: int, seconds: float) -> AsyncIterator[None]:
        """For less than Sentinels wait, however long the step lasts: otherwise they replace it."""
        master = await asyncio.to_thread(self._set.master)
        async with self._frozen(master):
            thawing = asyncio.get_running_loop().call_later(seconds, self._set.thaw, master)
            yield
            thawing.cancel()

    @asynccontextmanager
    async def freeze_sentinel(self, number: int, seconds: float) -> AsyncIterator[None]:
        async with self._frozen(self._set.sentinels[number % len(self._set.sentinels)]):
            yield

    @asynccontextmanager
    async def restart_sentinel(self, number: int, seconds: float) -> AsyncIterator[None]:
        sentinel = self._set.sentinels[number % len(self._set.sentinels)]
        await asyncio.to_thread(self._set.kill, sentinel)
        try:
            yield
        finally:
            await asyncio.to_thread(self._set.restart, sentinel)
            await self._whole()

    @asynccontextmanager
    async def freeze_until_replaced(self, number: int, seconds: float) -> AsyncIterator[None]:
        """It wakes, and still takes itself for the master."""
        old, new = await asyncio.to_thread(lambda: (self._set.master(), self._set.replica()))
        async with self._frozen(old):
            await self._named(new)
            yield

    @asynccontextmanager
    async def kill(self, number: int, seconds: float) -> AsyncIterator[None]:
        """It comes back as a replica."""
        old, new = await asyncio.to_thread(lambda: (self._set.master(), self._set.replica()))
        await asyncio.to_thread(self._set.kill, old)
        try:
            await self._named(new)
            yield
        finally:
            await asyncio.to_thread(self._set.restart, old)
            await self._whole()

    @asynccontextmanager
    async def failover(self, number: int, seconds: float) -> AsyncIterator[None]:
        """An order; the old master takes writes for a while."""
        new = await asyncio.to_thread(self._set.failover)
        yield
        await self._named(new)
        await self._whole()

    @asynccontextmanager
    async def restart_empty(self, number: int, seconds: float) -> AsyncIterator[None]:
        """Sooner than Sentinels notice: its replica forgets everything, too."""
        master = await asyncio.to_thread(self._set.master)
        await asyncio.to_thread(self._set.kill, master)
        await asyncio.to_thread(self._set.restart, master)
        await asyncio.to_thread(self._set.link(master).replicaof, "NO", "ONE")  # it may have been a replica at first
        yield
        await self._whole()

    @asynccontextmanager
    async def _frozen(self, server: RedisServer) -> AsyncIterator[None]:
        self._set.freeze(server)
        try:
            yield
        finally:
            self._set.thaw(server)
            await self._whole()

    async def _named(self, new: RedisServer) -> None:
        running = len(self._set.sentinels)
        await until(lambda: self._set.role(new) == "master" and self._set.named() == [new.port] * running)

    async def _whole(self) -> None:
        await until(self._set.agree)
