"""What is in a database, for those who only look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ..transactional.engine import Unavailable
from ..transactional.reader import ServedReader
from .address import address_of
from .session import Session, dial, meaning

NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
ROWS = "SELECT key, kind, value::text, expires_us FROM aiolock.rows WHERE key = ANY($1)"
PAGE = """SELECT key FROM aiolock.rows WHERE key > $1 AND (expires_us IS NULL OR expires_us > $2)
  ORDER BY key LIMIT $3"""


class DatabaseReader(ServedReader[Session]):
    """See `ServedReader`.

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
        super().__init__(self._at.name, timeout)
        self.pooled: bool = False

    async def dial(self) -> Session:
        """See `ServedReader.dial`."""
        session = await dial(self._at, self._seconds, pooled=True)
        self.pooled = session.pooled
        return session

    async def query(self, session: Session, statement: str, *values: object) -> Sequence[Sequence[Any]]:
        """See `ServedReader.query`."""
        rows: Sequence[Sequence[Any]] = await session.link.fetch(statement, *values)
        return rows

    @asynccontextmanager
    async def looking(self, session: Session) -> AsyncIterator[None]:
        """See `ServedReader.looking`."""
        async with session.link.transaction(isolation="repeatable_read", readonly=True):
            yield

    async def now(self, session: Session) -> int:
        """See `ServedReader.now`."""
        return int(await session.link.fetchval(NOW))

    async def rows(self, session: Session, keys: Sequence[str]) -> Sequence[Sequence[Any]]:
        """See `ServedReader.rows`."""
        return await self.query(session, ROWS, keys)

    async def page(self, session: Session, after: str, now_us: int, most: int) -> Sequence[Sequence[Any]]:
        """See `ServedReader.page`."""
        return await self.query(session, PAGE, after, now_us, most)

    def meaning(self, error: Exception) -> Unavailable:
        """See `ServedReader.meaning`."""
        return meaning(self._at, error, self._seconds, ran=False)
