"""What is asked for is decided while others may write, and written only if they have changed nothing of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from aiolock import AcquireTimeout, LockManager
from aiolock.backends.sqlite.engine import Outcome, SQLiteEngine
from aiolock.backends.sqlite.file import LockFile
from aiolock.backends.transactional.loaded import Loaded, Row
from aiolock.scripts.base import Call

Decide = Callable[[SQLiteEngine, Sequence[Call[Any]], dict[str, Row]], tuple[list[Outcome], Loaded]]


def meanwhile(path: Path, write: Callable[[sqlite3.Connection], object]) -> Any:
    """Write as another process, each time when something has been decided and not yet written."""
    decide: Decide = SQLiteEngine._run

    def run(self: SQLiteEngine, calls: Sequence[Call[Any]], rows: dict[str, Row]) -> tuple[list[Outcome], Loaded]:
        decided = decide(self, calls, rows)
        assert self._link is not None
        if not self._link.in_transaction:
            other = sqlite3.connect(path, timeout=0, isolation_level=None)
            write(other)
            other.close()
        return decided

    return mock.patch.object(SQLiteEngine, "_run", run)


def rows_of(path: Path) -> list[tuple[str, str, str, int]]:
    link = sqlite3.connect(path)
    rows = link.execute("SELECT * FROM aiolock").fetchall()
    link.close()
    return rows


@pytest.mark.parametrize("known", [True, False])
async def test_another_process_is_faster(url: str, path: Path, known: bool) -> None:
    """It has the lock; whether the name was in the file before or not. Kept by save_if."""
    async with LockManager(url, ttl=60) as one, LockManager(url, ttl=60) as two:
        lease = await two.lock("a").acquire()
        theirs = rows_of(path)

        def write(other: sqlite3.Connection) -> None:
            other.executemany("REPLACE INTO aiolock VALUES(?, ?, ?, ?)", theirs)

        link = sqlite3.connect(path)
        with link:
            link.execute("UPDATE aiolock SET expires_us = 1" if known else "DELETE FROM aiolock")
        link.close()
        with meanwhile(path, write), pytest.raises(AcquireTimeout):
            await one.lock("a").acquire(timeout=0)
        await lease.release()


async def test_others_write_while_something_is_decided(url: str, path: Path) -> None:
    """No Python runs while the file is locked: other threads of the process would be waited for. Kept by
    SQLiteEngine._guess.
    """
    writes: list[int] = []

    def write(other: sqlite3.Connection) -> None:
        writes.append(other.execute("INSERT INTO aiolock VALUES(hex(randomblob(8)), 'string', '', 0)").rowcount)

    async with LockManager(url, ttl=60) as locks:
        with meanwhile(path, write):
            for _ in range(3):
                async with locks.lock("a") as lease:
                    lease.ensure()
        assert sum(writes) >= 6


async def test_who_begins_to_listen_before_the_write_is_told(url: str, path: Path) -> None:
    """It may have read what was there before, and wait for the message. Kept by SQLiteEngine._publish."""
    asked: list[str] = []
    count = SQLiteEngine._count

    def counted(self: SQLiteEngine, channel: str) -> int:
        asked.append(channel)
        return count(self, channel)

    def write(other: sqlite3.Connection) -> None:
        other.executemany("REPLACE INTO aiolock_listeners VALUES(?, 'late')", [(channel,) for channel in asked])

    async with LockManager(url) as locks:
        latch = locks.latch("a", 1, ttl=60)
        with (
            mock.patch.object(SQLiteEngine, "_count", counted),
            mock.patch("aiolock.backends.sqlite.sockets.Sockets.send") as send,
            meanwhile(path, write),
        ):
            assert await latch.count_down() == 0
        assert [call.args[0] for call in send.call_args_list] == ["late"]


async def test_a_question_needs_no_lock(url: str, path: Path) -> None:
    """Also while a process stands still in a transaction. Kept by SQLiteEngine._guess."""
    async with LockManager(url, ttl=60) as locks, locks.lock("a"):
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert await locks.lock("a").is_locked()
        info = await locks.lock("a").info()
        assert info is not None
        other.close()


async def test_many_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one statement can name in the oldest versions of SQLite. Kept by SQLiteEngine._transact."""
    connect = LockFile.connect

    def connected(self: LockFile) -> sqlite3.Connection:
        link = connect(self)
        link.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
        return link

    monkeypatch.setattr(LockFile, "connect", connected)
    async with LockManager(url, ttl=60) as one, LockManager(url, ttl=60) as two:

        async def hold(number: int) -> None:
            async with one.lock(f"n{number}"):
                with pytest.raises(AcquireTimeout):
                    await two.lock(f"n{number}").acquire(timeout=0)

        await asyncio.gather(*map(hold, range(100)))
