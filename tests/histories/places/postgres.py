"""A database, and no Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import ClassVar

import psycopg
import redis

from tests.support import locks
from tests.support.database import DatabaseSide
from tests.support.pgwire import PostgresFramer
from tests.support.postgres import OwnServer

from ..kinds import NETWORK, Kind
from .base import Place

PORT = 5432
"""What workers are told; they come to a proxy."""
OURS = "FROM pg_stat_activity WHERE application_name = 'aiolock'"


class Postgres(Place):
    """A server that crashes and comes back with all that was committed, stands still, and loses sessions.

    Args:
        server: the server.
    """

    name = "postgres"
    kinds: ClassVar = {"end_sessions": Kind(2.0), "crash": Kind(1.5, 0.0, 2.0), "freeze": Kind(1.0, 0.1, 3.0)}
    framing = PostgresFramer
    network: ClassVar = {name: NETWORK[name] for name in NETWORK if name != "double"}

    def __init__(self, server: OwnServer) -> None:
        self._server = server
        self.host = server.socket
        self.ports = [PORT]
        self.given = {"url": f"postgresql://postgres@127.0.0.1:{PORT}/postgres?sslmode=disable"}

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[Postgres]:
        """Start the server; end it at the end."""
        with contextlib.closing(OwnServer()) as server:
            # Its crashes lose nothing that was written; a disk that others keep busy would be a fault of nobody.
            with psycopg.connect(server.url, autocommit=True) as link:
                link.execute("ALTER SYSTEM SET fsync = off")
                link.execute("SELECT pg_reload_conf()")
            DatabaseSide(server.url).close()  # makes the schema
            yield cls(server)

    def links(self) -> list[redis.Redis]:
        return []

    def clients(self) -> int:
        with psycopg.connect(self._server.url) as link:
            (count,) = link.execute(f"SELECT count(*) {OURS}").fetchone() or (0,)
        return int(count)

    def version(self) -> str:
        return self._server.version

    def held(self) -> list[str]:
        with contextlib.closing(DatabaseSide(self._server.url, empty=False)) as side, side.opened() as store:
            return [*locks.held_names(store), *locks.all_waiting(store)]

    def unlimited(self) -> list[str]:
        with contextlib.closing(DatabaseSide(self._server.url, empty=False)) as side, side.opened() as store:
            return locks.unlimited(store)

    @asynccontextmanager
    async def end_sessions(self, number: int, seconds: float) -> AsyncIterator[None]:
        await asyncio.to_thread(self._end_sessions)
        yield

    @asynccontextmanager
    async def crash(self, number: int, seconds: float) -> AsyncIterator[None]:
        away = self._server.away()
        await asyncio.to_thread(away.__enter__)
        yield
        await asyncio.to_thread(away.__exit__, None, None, None)

    @asynccontextmanager
    async def freeze(self, number: int, seconds: float) -> AsyncIterator[None]:
        with self._server.frozen():
            yield

    def _end_sessions(self) -> None:
        with psycopg.connect(self._server.url) as link:
            link.execute(f"SELECT pg_terminate_backend(pid) {OURS}")
