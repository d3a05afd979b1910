"""Locks that PostgreSQL has by itself, and a row as ShedLock writes it. A session for each that waits or holds."""

from __future__ import annotations

import asyncio

import asyncpg

POLL = 0.005
"""Seconds between two attempts where nobody is woken."""


class Sessions:
    """Those that nobody uses, and new ones if there is none."""

    settings = "pg_advisory_lock, a session for each that waits or holds"
    scripted: frozenset[str] = frozenset()
    permits = 1

    async def open(self, url: str) -> None:
        """Remember where."""
        self._url = url
        self._free: list[asyncpg.Connection] = []

    async def close(self) -> None:
        """End those that nobody uses."""
        for link in self._free:
            await link.close(timeout=1.0)

    async def take(self) -> asyncpg.Connection:
        """Return one."""
        return self._free.pop() if self._free else await asyncpg.connect(self._url)

    def give(self, link: asyncpg.Connection) -> None:
        """Take it back."""
        self._free.append(link)


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
        self._link = await self._sessions.take()
        await self.acquire(self._link, self._name)

    async def __aexit__(self, *how: object) -> None:
        await self.release(self._link, self._name)
        self._sessions.give(self._link)

    async def acquire(self, link: asyncpg.Connection, name: str) -> None:
        """Wait until it is ours."""
        await link.fetchval("SELECT pg_advisory_lock(hashtextextended($1, 0))", name)

    async def release(self, link: asyncpg.Connection, name: str) -> None:
        """Give it back."""
        await link.fetchval("SELECT pg_advisory_unlock(hashtextextended($1, 0))", name)


class Advisory(Sessions):
    """Advisory locks of sessions: no lease, no fence; gone with the session, of which nobody is told."""

    def lock(self, name: str, ttl: float) -> Held:
        """A lock."""
        return Held(self, name)


class Row(Held):
    """A lock in a row."""

    async def acquire(self, link: asyncpg.Connection, name: str) -> None:
        """Ask until it is ours."""
        ask = """INSERT INTO shedlock VALUES($1, clock_timestamp() + interval '30 s', 'me') ON CONFLICT(name) DO UPDATE
          SET lock_until = clock_timestamp() + interval '30 s' WHERE shedlock.lock_until <= clock_timestamp()"""
        while True:
            if (await link.execute(ask, name)).endswith(" 1"):
                return
            await asyncio.sleep(POLL)

    async def release(self, link: asyncpg.Connection, name: str) -> None:
        """Let its time end."""
        await link.execute("UPDATE shedlock SET lock_until = clock_timestamp() WHERE name = $1", name)


class ShedLock(Sessions):
    """Rows with the time until which a name is taken: no renewal, no queue, no fence."""

    settings = f"a row as ShedLock's, asked for each {POLL * 1000:.0f} ms"

    async def open(self, url: str) -> None:
        """Make the table."""
        await super().open(url)
        link = await self.take()
        await link.execute(
            "SELECT pg_advisory_lock(1); CREATE TABLE IF NOT EXISTS shedlock(name varchar(64) PRIMARY KEY, "
            "lock_until timestamptz, locked_by text); SELECT pg_advisory_unlock(1)"
        )
        self.give(link)

    def lock(self, name: str, ttl: float) -> Held:
        """A lock."""
        return Row(self, name)
