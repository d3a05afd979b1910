"""A database of MariaDB or MySQL, and no Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import ClassVar

import redis

from tests.support import locks, mysql
from tests.support.mysql import OwnServer
from tests.support.mysql_side import MySQLSide
from tests.support.mywire import MySQLFramer

from ..kinds import NETWORK, Kind
from .base import Place

DATABASE = "locks"
OURS = "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> CONNECTION_ID()"


class MySQL(Place):
    """A server that crashes and comes back with all that was committed, stands still, and loses sessions.

    Args:
        server: the server.
    """

    name = "mysql"
    kinds: ClassVar = {"end_sessions": Kind(2.0), "crash": Kind(1.5, 0.0, 2.0), "freeze": Kind(1.0, 0.1, 3.0)}
    framing = MySQLFramer
    network: ClassVar = {name: NETWORK[name] for name in NETWORK if name != "double"}

    def __init__(self, server: OwnServer) -> None:
        self._server = server
        self.ports = [server.port]
        self.given = {"url": f"mysql://root@127.0.0.1:{server.port}/{DATABASE}"}

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[MySQL]:
        """Start the server; end it at the end."""
        with contextlib.closing(OwnServer()) as server:
            MySQLSide(server.port, DATABASE).close()  # makes the schema
            yield cls(server)

    def links(self) -> list[redis.Redis]:
        return []

    def clients(self) -> int:
        with mysql.connect(self._server.port) as link, link.cursor() as cursor:
            return int(cursor.execute(OURS, (DATABASE,)))

    def version(self) -> str:
        return self._server.version

    def held(self) -> list[str]:
        with contextlib.closing(self._side()) as side, side.opened() as store:
            return [*locks.held_names(store), *locks.all_waiting(store)]

    def unlimited(self) -> list[str]:
        with contextlib.closing(self._side()) as side, side.opened() as store:
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

    def _side(self) -> MySQLSide:
        return MySQLSide(self._server.port, DATABASE, empty=False)

    def _end_sessions(self) -> None:
        with mysql.connect(self._server.port) as link, link.cursor() as cursor:
            cursor.execute(OURS, (DATABASE,))
            for (number,) in cursor.fetchall():
                with contextlib.suppress(mysql.Error):
                    cursor.execute(f"KILL {number}")
