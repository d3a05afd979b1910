"""A database, and no Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import ClassVar, Self

import redis

from tests.databases.database import Database, OwnServer
from tests.databases.mysql.database import MySQLDatabase, RealMySQL
from tests.databases.postgres.database import PostgresDatabase
from tests.support import locks

from ..kinds import NETWORK, Kind
from .base import Place


class Served(Place):
    """A server that crashes and comes back with all that was committed, stands still, and loses sessions.

    Args:
        server: the server.
    """

    kinds: ClassVar = {"end_sessions": Kind(2.0), "crash": Kind(1.5, 0.0, 2.0), "freeze": Kind(1.0, 0.1, 3.0)}
    network: ClassVar = {name: NETWORK[name] for name in NETWORK if name != "double"}
    product: ClassVar[type[Database]]

    def __init__(self, server: OwnServer) -> None:
        self._server = server
        self._database = self.product(server.url)
        self.host, port = self._database.where
        self.ports = [port]
        self.given = {"url": self._database.behind(port)}

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[Self]:
        """Start the server; end it at the end."""
        with contextlib.closing(cls.product.server()) as server:
            cls.product(server.url).equip()
            yield cls(server)

    def links(self) -> list[redis.Redis]:
        return []

    def clients(self) -> int:
        return len(self._database.sessions())

    def version(self) -> str:
        return self._server.version

    def held(self) -> list[str]:
        with contextlib.closing(self._database.side(empty=False)) as side, side.opened() as store:
            return [*locks.held_names(store), *locks.all_waiting(store)]

    def unlimited(self) -> list[str]:
        with contextlib.closing(self._database.side(empty=False)) as side, side.opened() as store:
            return locks.unlimited(store)

    @asynccontextmanager
    async def end_sessions(self, number: int, seconds: float) -> AsyncIterator[None]:
        await asyncio.to_thread(self._database.end_sessions)
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


class Postgres(Served):
    """See `Served`."""

    name = "postgres"
    product, framing = PostgresDatabase, PostgresDatabase.framing


class MariaDB(Served):
    """See `Served`."""

    name = "mariadb"
    product, framing = MySQLDatabase, MySQLDatabase.framing


class MySQL(Served):
    """See `Served`."""

    name = "mysql"
    product, framing = RealMySQL, RealMySQL.framing
