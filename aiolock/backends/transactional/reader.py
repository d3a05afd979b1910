"""What is in a database, for those who only look."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from ...errors import BackendError
from ...scripts.view import Command
from ..reader import Reader
from .engine import Unavailable
from .loaded import Row
from .replies import SCAN, keys_of, page_of, replies
from .served import Session, kept, shown

S = TypeVar("S", bound=Session)


class ServedReader(Reader, Generic[S]):
    """Answers the commands of a server, from the rows of a database; changes none of them. Subclasses say how to talk
    to it.

    Args:
        address: what it is called in errors.
        timeout: seconds for each answer.
    """

    def __init__(self, address: str, timeout: float) -> None:
        self.address: str = address
        self.ahead_us: int = 0
        self.moving: int = 0
        self._shares = False
        self._seconds = timeout
        self._session: S | None = None

    @abstractmethod
    async def dial(self) -> S:
        """A new session. Raises `Unavailable`."""

    @abstractmethod
    async def query(self, session: S, query: str, *values: object) -> Sequence[Sequence[Any]]:
        """Return the rows of a query."""

    @abstractmethod
    @asynccontextmanager
    async def looking(self, session: S) -> AsyncIterator[None]:
        """What is read within is of one moment."""
        yield

    @abstractmethod
    async def now(self, session: S) -> int:
        """The server's time."""

    @abstractmethod
    async def rows(self, session: S, keys: Sequence[str]) -> Sequence[Sequence[Any]]:
        """Key, kind, value and end of those keys that there are."""

    @abstractmethod
    async def page(self, session: S, after: str, now_us: int, most: int) -> Sequence[Sequence[Any]]:
        """Keys that live, from the one after `after` on, in their order."""

    @abstractmethod
    def meaning(self, error: Exception) -> Unavailable:
        """What an error means."""

    async def read(self, commands: Sequence[Command]) -> list[object]:
        """See `Reader.read`. Cost: a round trip for the time, one for the rows, and one for each SCAN.

        Raises:
            AiolockError: the database cannot be used, or nobody has kept locks in it.
        """
        try:
            async with asyncio.timeout(self._seconds):
                session = await self._connect()
                async with self.looking(session):
                    return await self._replies(session, commands)
        except Exception as error:
            await self.close()  # it may be in the middle of something
            why = self.meaning(error)
            raise why.error from why.__cause__

    async def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            session.end()

    async def fetch(self, query: str, *values: object) -> list[list[object]]:
        """Ask for something else than locks. Raises what `read` does."""
        try:
            async with asyncio.timeout(self._seconds):
                return [list(row) for row in await self.query(await self._connect(), query, *values)]
        except Exception as error:
            why = self.meaning(error)
            raise why.error from why.__cause__

    async def _connect(self) -> S:
        if self._session is None or self._session.over:
            session = await self.dial()
            if not session.equipped:
                session.end()
                raise Unavailable(BackendError("", f"{self.address}: nobody has kept locks in this database"))
            self._session = session
        return self._session

    async def _replies(self, session: S, commands: Sequence[Command]) -> list[object]:
        now = await self.now(session)
        self.ahead_us = now - time.time_ns() // 1000
        rows: dict[str, Row] = {}
        keys = keys_of(commands)
        for key, kind, text, expires in await self.rows(session, [kept(key) for key in keys]) if keys else ():
            rows[shown(key)] = Row.of_json(kind, text, expires)
        scanned: dict[Command, list[str]] = {}
        for command in commands:
            if command[0] == SCAN:
                page = page_of(command)
                found = await self.page(session, kept(page.after), now, page.most)
                scanned[command] = [shown(key) for (key,) in found]
        return replies(now, rows, commands, scanned)
