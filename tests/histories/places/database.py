"""One server for the locks, and a PostgreSQL that they protect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

from tests.support import postgres

from ..accounts import TABLES, Accounts
from ..kinds import Kind
from .keeping import KeepingServer
from .server import OneServer


class Database(OneServer):
    """Holders of locks write to a database with `fenced()`, whatever happens to them, to the server or to it."""

    name = "database"
    kinds: ClassVar = OneServer.kinds | {"end_sessions": Kind(2.0)}
    uses = ("fenced", "lock")

    def __init__(self, kept: KeepingServer) -> None:
        super().__init__(kept)
        dsn = postgres.anew(*TABLES)
        self._accounts = Accounts(dsn)
        self.given |= {"accounts": dsn}

    def totals(self) -> dict[str, int]:
        return {"account": self._accounts.total()}

    def broken(self) -> list[str]:
        return self._accounts.broken()

    @asynccontextmanager
    async def end_sessions(self, number: int, seconds: float) -> AsyncIterator[None]:
        await asyncio.to_thread(self._accounts.end_sessions)
        yield
