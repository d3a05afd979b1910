"""Locks that MariaDB and MySQL have by themselves, and a row as ShedLock writes it. A session for each that waits or
holds.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncmy

from aiolock.backends.mysql.address import address_of

from .in_postgres import POLL


class Sessions:
    """Those that nobody uses, and new ones if there is none."""

    settings = "GET_LOCK, a session for each that waits or holds"
    scripted: frozenset[str] = frozenset()
    permits = 1

    async def open(self, url: str) -> None:
        """Remember where."""
        self._at = address_of(url)
        self._free: list[Session] = []

    async def close(self) -> None:
        """End those that nobody uses."""
        for session in self._free:
            await session.link.ensure_closed()

    async def take(self) -> Session:
        """Return one."""
        if self._free:
            return self._free.pop()
        at = self._at
        link = await asyncmy.connect(
            host=at.host, port=at.port, user=at.user, password=at.password, database=at.database, autocommit=True
        )
        return Session(link)

    def give(self, session: Session) -> None:
        """Take it back."""
        self._free.append(session)


class Session:
    """A connection, and the statements that it has prepared.

    Args:
        link: asyncmy's.

    Attributes:
        link: see above.
    """

    def __init__(self, link: Any) -> None:
        self.link = link
        self._prepared: dict[str, Any] = {}

    async def run(self, statement: str, *values: object) -> Any:
        """Execute it."""
        if statement not in self._prepared:
            self._prepared[statement] = await self.link.prepare(statement)
        return await self._prepared[statement].execute(values)


class Held:
    """A lock for one task.

    Args:
        sessions: of the process.
        name: what it is called.
    """

    def __init__(self, sessions: Sessions, name: str) -> None:
        self._sessions = sessions
        self._name = name

    async def __aenter__(self) -> None:
        self._session = await self._sessions.take()
        await self.acquire(self._session, self._name)

    async def __aexit__(self, *how: object) -> None:
        await self.release(self._session, self._name)
        self._sessions.give(self._session)

    async def acquire(self, session: Session, name: str) -> None:
        """Wait until it is ours."""
        await session.run("SELECT GET_LOCK(?, 60)", name)

    async def release(self, session: Session, name: str) -> None:
        """Give it back."""
        await session.run("SELECT RELEASE_LOCK(?)", name)


class GetLock(Sessions):
    """Locks of sessions: no lease, no fence; gone with the session, of which nobody is told."""

    def lock(self, name: str, ttl: float) -> Held:
        """A lock."""
        return Held(self, name)


class Row(Held):
    """A lock in a row."""

    async def acquire(self, session: Session, name: str) -> None:
        """Ask until it is ours."""
        while True:
            for ask in (
                """UPDATE shedlock SET lock_until = TIMESTAMPADD(SECOND, 30, UTC_TIMESTAMP(6))
                  WHERE name = ? AND lock_until <= UTC_TIMESTAMP(6)""",
                "INSERT IGNORE INTO shedlock VALUES(?, TIMESTAMPADD(SECOND, 30, UTC_TIMESTAMP(6)), 'me')",
            ):
                if (await session.run(ask, name)).affected_rows:
                    return
            await asyncio.sleep(POLL)

    async def release(self, session: Session, name: str) -> None:
        """Let its time end."""
        await session.run("UPDATE shedlock SET lock_until = UTC_TIMESTAMP(6) WHERE name = ?", name)


class ShedLock(Sessions):
    """Rows with the time until which a name is taken: no renewal, no queue, no fence."""

    settings = f"a row as ShedLock's, asked for each {POLL * 1000:.0f} ms"

    async def open(self, url: str) -> None:
        """Make the table."""
        await super().open(url)
        session = await self.take()
        await session.run("SET SESSION sql_notes = 0")
        await session.run(
            "CREATE TABLE IF NOT EXISTS shedlock(name VARCHAR(64) PRIMARY KEY, lock_until DATETIME(6), locked_by TEXT)"
        )
        self.give(session)

    def lock(self, name: str, ttl: float) -> Held:
        """A lock."""
        return Row(self, name)
