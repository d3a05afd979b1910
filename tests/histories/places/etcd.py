"""An etcd cluster, and no Redis."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import ClassVar

import redis

from tests.support.etcd import Etcd as Cluster
from tests.support.proxy import Direction

from ..kinds import NETWORK, Kind
from .base import Place
from .waiting import until

WHOLE = ("reset", "hold_requests", "hold_replies", "delay", "partition")
"""What happens to connections whose bytes belong together: none of them gets lost alone."""


class _Bytes:
    """Does not know where a request ends."""

    def __init__(self, direction: Direction) -> None:
        pass

    def feed(self, chunk: bytes) -> list[bytes]:
        return [chunk]

    def pushes(self, frame: bytes) -> bool:
        return False


class Etcd(Place):
    """Three members, of which one crashes and comes back, or stands still: often the one that leads.

    Args:
        cluster: the members.
    """

    name = "etcd"
    kinds: ClassVar = {
        "crash": Kind(1.5, 0.0, 2.0),
        "freeze": Kind(1.5, 0.1, 3.0),
        "crash_leader": Kind(1.0, 0.0, 2.0),
        "freeze_leader": Kind(1.0, 0.1, 3.0),
    }
    network: ClassVar = {name: NETWORK[name] for name in WHOLE}
    framing = _Bytes
    uses = ("lock", "other", "fair", "nested", "read", "write", "permits")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.ports = [member.port for member in cluster.members]
        self.given = {"url": cluster.url}

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[Etcd]:
        """Start it; end it at the end."""
        with Cluster(3) as cluster:
            yield cls(cluster)

    def links(self) -> list[redis.Redis]:
        return []

    def clients(self) -> int:
        """A process that was killed has no connections left, and one that closes leaves none: TCP sees to that."""
        return 0

    def version(self) -> str:
        return f"etcd {self._cluster.ask('maintenance/status')['version']}"

    def held(self) -> list[str]:
        return [key for key in self._keys() if not key.endswith("#last")]

    def unlimited(self) -> list[str]:
        pairs = self._cluster.pairs("\0", "\xff")
        return [pair["key"] for pair in pairs if "lease" not in pair and not pair["key"].endswith("#last")]

    def _keys(self) -> list[str]:
        return [pair["key"] for pair in self._cluster.pairs("aiolock/", "aiolock0") if "/#/" not in pair["key"]]

    @asynccontextmanager
    async def crash(self, number: int, seconds: float) -> AsyncIterator[None]:
        member = self._cluster.members[number % 3]
        await asyncio.to_thread(member.kill)
        yield
        member.start()
        await until(lambda: self._whole())

    @asynccontextmanager
    async def freeze(self, number: int, seconds: float) -> AsyncIterator[None]:
        member = self._cluster.members[number % 3]
        member.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            member.signal(signal.SIGCONT)

    @asynccontextmanager
    async def crash_leader(self, number: int, seconds: float) -> AsyncIterator[None]:
        async with self.crash(await asyncio.to_thread(self._leader), seconds):
            yield

    @asynccontextmanager
    async def freeze_leader(self, number: int, seconds: float) -> AsyncIterator[None]:
        async with self.freeze(await asyncio.to_thread(self._leader), seconds):
            yield

    def _leader(self) -> int:
        leader = self._cluster.leader()
        return 0 if leader is None else self._cluster.members.index(leader)

    def _whole(self) -> bool:
        return self._cluster.leader() is not None
