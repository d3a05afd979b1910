"""What is in a database, for those who only look."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ...errors import BackendError
from ...scripts.view import Command
from ..survey import Reader
from ..transactional.engine import Unavailable
from ..transactional.loaded import Row
from ..transactional.replies import SCAN, keys_of, page_of, replies
from .address import address_of
from .engine import kept, shown
from .session import Session, dial, meaning

NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
ROWS = "SELECT key, kind, value::text, expires_us FROM aiolock.rows WHERE key = ANY($1)"
PAGE = """SELECT key FROM aiolock.rows WHERE key > $1 AND (expires_us IS NULL OR expires_us > $2)
  ORDER BY key LIMIT $3"""


class DatabaseReader(Reader):
    """Answers the commands of a server, from the rows of a database; changes none of them.

    Args:
        url: of the database.
        timeout: seconds for each answer.

    Attributes:
        pooled: its answers came through a pooler.

    Raises:
        ConfigurationError: the URL names no database.
    """

    def __init__(self, url: str, timeout: float = 5.0) -> None:
        self._at = address_of(url)
        self.address: str = self._at.name
        self.ahead_us: int = 0
        self.moving: int = 0
        self.pooled: bool = False
        self._shares = False
        self._seconds = timeout
        self._session: Session | None = None

    async def read(self, commands: Sequence[Command]) -> list[object]:
        """See `Reader.read`. Cost: a round trip for the time, one for the rows, and one for each SCAN.

        Raises:
            AiolockError: the database cannot be used, or nobody has kept locks in it.
        """
        try:
            async with asyncio.timeout(self._seconds):
                session = await self._connect()
                async with session.link.transaction(isolation="repeatable_read", readonly=True):
                    return await self._replies(session, commands)
        except Exception as error:
            why = meaning(self._at, error, self._seconds, ran=False)
            raise why.error from why.__cause__

    async def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            session.link.terminate()

    async def fetch(self, query: str, *values: object) -> list[list[object]]:
        """Ask for something else than locks. Raises what `read` does."""
        try:
            async with asyncio.timeout(self._seconds):
                return [list(row) for row in await (await self._connect()).link.fetch(query, *values)]
        except Exception as error:
            why = meaning(self._at, error, self._seconds, ran=False)
            raise why.error from why.__cause__

    async def _connect(self) -> Session:
        if self._session is None or self._session.over:
            session = await dial(self._at, self._seconds, pooled=True)
            if not session.equipped:
                session.link.terminate()
                raise Unavailable(BackendError("", f"{self.address}: nobody has kept locks in this database"))
            self._session, self.pooled = session, session.pooled
        return self._session

    async def _replies(self, session: Session, commands: Sequence[Command]) -> list[object]:
        link = session.link
        now: int = await link.fetchval(NOW)
        self.ahead_us = now - time.time_ns() // 1000
        rows: dict[str, Row] = {}
        keys = keys_of(commands)
        for key, kind, text, expires in await link.fetch(ROWS, [kept(key) for key in keys]) if keys else ():
            rows[shown(key)] = Row.of_json(kind, text, expires)
        scanned: dict[Command, list[str]] = {}
        for command in commands:
            if command[0] == SCAN:
                page = page_of(command)
                found = await link.fetch(PAGE, kept(page.after), now, page.most)
                scanned[command] = [shown(key) for (key,) in found]
        return replies(now, rows, commands, scanned)
