"""A cluster of three masters, each with a replica."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import ClassVar, Literal

import redis

from tests.support import redis_cli
from tests.support.cluster import DEBUGGING, Cluster, start_cluster
from tests.support.cluster_node import ClusterNode

from ..kinds import SERVER, Kind
from .base import Place
from .waiting import until

NAMES = ("a", "b", "n", "rw", "sem", "t", "tp", "tf", "k", "krw", "ksem", "m07", "j", "r")
"""What workers use: their slots move, and their masters are replaced."""


class AnyCluster(Place):
    """Masters die, freeze, are replaced and isolated; slots move."""

    name = "cluster"
    replicas = True
    kinds: ClassVar = SERVER | {
        "freeze": Kind(1.0, 0.1, 1.0),
        "freeze_until_replaced": Kind(1.0, replaces=True),
        "kill": Kind(1.5, replaces=True),
        "failover": Kind(1.5),
        "failover_force": Kind(1.0, replaces=True),
        "failover_takeover": Kind(1.0, replaces=True),
        "restart_replica": Kind(0.7, 0.0, 2.0),
        "isolate": Kind(1.0, replaces=True),
        "move_slot": Kind(3.0),
    }

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.given = {"urls": cluster.urls[:2]}
        self.ports = [node.server.port for node in cluster.nodes]

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[AnyCluster]:
        """Start all six; stop them at the end."""
        with start_cluster(node_timeout=1.5, options=DEBUGGING) as cluster:
            yield cls(cluster)

    def links(self) -> list[redis.Redis]:
        return [node.link for node in self._cluster.masters]

    def clients(self) -> int:
        return self._cluster.clients()

    def version(self) -> str:
        return " ".join(redis_cli.product(self._cluster.nodes[0].link))

    def _master(self, number: int) -> ClusterNode:
        """Of one of the names that are used."""
        return self._cluster.master_of(NAMES[number % len(NAMES)])

    @asynccontextmanager
    async def freeze(self, number: int, seconds: float) -> AsyncIterator[None]:
        """For less than the node timeout, however long the step lasts: otherwise the others replace it."""
        master = await asyncio.to_thread(self._master, number)
        master.freeze()
        thawing = asyncio.get_running_loop().call_later(seconds, master.thaw)
        try:
            yield
        finally:
            thawing.cancel()
            master.thaw()
            await self._whole()

    @asynccontextmanager
    async def freeze_until_replaced(self, number: int, seconds: float) -> AsyncIterator[None]:
        old = await asyncio.to_thread(self._master, number)
        new = await asyncio.to_thread(self._cluster.replica_of, old)
        old.freeze()
        try:
            await self._promoted(new)
            yield
        finally:
            old.thaw()
            await self._whole()

    @asynccontextmanager
    async def kill(self, number: int, seconds: float) -> AsyncIterator[None]:
        """It comes back as a replica."""
        old = await asyncio.to_thread(self._master, number)
        new = await asyncio.to_thread(self._cluster.replica_of, old)
        await asyncio.to_thread(old.kill)
        try:
            await self._promoted(new)
            yield
        finally:
            await asyncio.to_thread(old.restart)
            await self._whole()

    @asynccontextmanager
    async def failover(
        self, number: int, seconds: float, how: Literal["", "FORCE", "TAKEOVER"] = ""
    ) -> AsyncIterator[None]:
        """An order; without `how` nothing is lost."""
        old = await asyncio.to_thread(self._master, number)
        new = await asyncio.to_thread(self._cluster.failover, old, how)
        yield
        await self._promoted(new)
        await self._whole()

    def failover_force(self, number: int, seconds: float) -> contextlib.AbstractAsyncContextManager[None]:
        return self.failover(number, seconds, "FORCE")

    def failover_takeover(self, number: int, seconds: float) -> contextlib.AbstractAsyncContextManager[None]:
        return self.failover(number, seconds, "TAKEOVER")

    @asynccontextmanager
    async def restart_replica(self, number: int, seconds: float) -> AsyncIterator[None]:
        """Nothing is acknowledged meanwhile."""
        master = await asyncio.to_thread(self._master, number)
        replica = await asyncio.to_thread(self._cluster.replica_of, master)
        await asyncio.to_thread(replica.kill)
        try:
            yield
        finally:
            await asyncio.to_thread(replica.restart)
            await self._whole()

    @asynccontextmanager
    async def isolate(self, number: int, seconds: float) -> AsyncIterator[None]:
        """The others do not hear a master, and replace it; its clients do."""
        old = await asyncio.to_thread(self._master, number)
        new = await asyncio.to_thread(self._cluster.isolate, old)
        try:
            await self._promoted(new)
            yield
        finally:
            await asyncio.to_thread(self._cluster.rejoin, old)
            await self._whole()

    @asynccontextmanager
    async def move_slot(self, number: int, seconds: float) -> AsyncIterator[None]:
        """A name's slot, step by step, to another master."""
        slot = self._cluster.slot(NAMES[number % len(NAMES)])
        old = await asyncio.to_thread(self._master, number)
        masters = [node for node in await asyncio.to_thread(lambda: self._cluster.masters) if node is not old]
        steps = self._cluster.moving(slot, masters[number % len(masters)])
        while await asyncio.to_thread(next, steps, None) is not None:  # noqa: ASYNC110 - workers go on meanwhile
            await asyncio.sleep(0.02)
        yield
        await self._whole()

    async def _promoted(self, new: ClusterNode) -> None:
        await until(lambda: new.role == "master")

    async def _whole(self) -> None:
        await until(self._cluster.ok)
