"""What is in a database, for those who only look."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ..transactional.engine import Unavailable
from ..transactional.reader import ServedReader
from .address import address_of
from .session import Session, dial, meaning

NOW = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
ROWS = """SELECT x.k, r.kind, r.value, r.expires_us
  FROM JSON_TABLE(?, '$[*]' COLUMNS(k VARCHAR(3072) CHARACTER SET utf8mb4 PATH '$')) AS x
  JOIN aiolock_rows r ON r.k = CONVERT(x.k USING binary)"""
PAGE = """SELECT CONVERT(k USING utf8mb4) FROM aiolock_rows
  WHERE k > CONVERT(? USING binary) AND (expires_us IS NULL OR expires_us > ?) ORDER BY k LIMIT ?"""


class DatabaseReader(ServedReader[Session]):
    """See `ServedReader`.

    Args:
        url: of the database.
        timeout: seconds for each answer.

    Raises:
        ConfigurationError: the URL names no database.
    """

    def __init__(self, url: str, timeout: float = 5.0) -> None:
        self._at = address_of(url)
        super().__init__(self._at.name, timeout)

    async def dial(self) -> Session:
        """See `ServedReader.dial`."""
        return await dial(self._at, self._seconds)

    async def query(self, session: Session, statement: str, *values: object) -> Sequence[Sequence[Any]]:
        """See `ServedReader.query`."""
        return await session.ask(statement, *values)

    @asynccontextmanager
    async def looking(self, session: Session) -> AsyncIterator[None]:
        """See `ServedReader.looking`."""
        await session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await session.run("START TRANSACTION READ ONLY")
        yield
        await session.run("COMMIT")

    async def now(self, session: Session) -> int:
        """See `ServedReader.now`."""
        ((now,),) = await session.ask(NOW)
        return int(now)

    async def rows(self, session: Session, keys: Sequence[str]) -> Sequence[Sequence[Any]]:
        """See `ServedReader.rows`."""
        return await session.ask(ROWS, json.dumps(keys, ensure_ascii=False))

    async def page(self, session: Session, after: str, now_us: int, most: int) -> Sequence[Sequence[Any]]:
        """See `ServedReader.page`."""
        return await session.ask(PAGE, after, now_us, most)

    def meaning(self, error: Exception) -> Unavailable:
        """See `ServedReader.meaning`."""
        return meaning(self._at, error, self._seconds, ran=False)
