"""Three servers of one cluster, and no Redis."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, Generic, Protocol, TypeVar

import redis

from tests.support.members import Member
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


class Cluster(Protocol):
    """Servers that choose a leader."""

    @property
    def members(self) -> Sequence[Member]: ...

    @property
    def url(self) -> str: ...

    def leader(self) -> Member | None: ...


C = TypeVar("C", bound=Cluster)


class ThreeMembers(Place, Generic[C]):
    """Three members, of which one crashes and comes back, or stands still: often the one that leads.

    Args:
        cluster: the members.
    """

    kinds: ClassVar = {
        "crash": Kind(1.5, 0.0, 2.0),
        "freeze": Kind(1.5, 0.1, 3.0),
        "crash_leader": Kind(1.0, 0.0, 2.0),
        "freeze_leader": Kind(1.0, 0.1, 3.0),
    }
    network: ClassVar = {name: NETWORK[name] for name in WHOLE}
    framing = _Bytes
    uses = ("lock", "other", "fair", "nested", "read", "write", "permits")

    def __init__(self, cluster: C) -> None:
        self._cluster = cluster
        self.ports = [member.port for member in cluster.members]
        self.given = {"url": cluster.url}

    def links(self) -> list[redis.Redis]:
        return []

    def clients(self) -> int:
        """A process that was killed has no connections left, and one that closes leaves none: TCP sees to that."""
        return 0

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
