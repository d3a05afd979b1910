"""What processes leave that were killed, or that did little: it does not stay."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from aiolock import LockManager

KILLED = """
import asyncio, os, signal, sys
from aiolock import LockManager

async def main():
    async with LockManager(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as link:
        (count,) = link.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


async def test_sockets_of_killed_processes(url: str, path: Path) -> None:
    """Kept by SQLiteEngine._enlist."""
    sockets = f"{path}-sockets"
    async with LockManager(url):
        mine = os.listdir(sockets)
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, url], check=False)
        (dead,) = set(os.listdir(sockets)) - set(mine)
        assert rows(path, "aiolock_listeners") == 2
        async with LockManager(url):
            assert dead not in os.listdir(sockets)
            assert rows(path, "aiolock_listeners") == 2


async def test_rows_that_say_anything(url: str, path: Path) -> None:
    """Kept by Sockets.heard."""
    async with LockManager(url) as locks:
        with closing(sqlite3.connect(path)) as link:
            link.executemany("INSERT INTO aiolock_listeners VALUES('c', ?)", [(7,), (b"x",), ("../locks.db",), ("",)])
            link.commit()
        async with LockManager(url), locks.lock("a"):
            assert rows(path, "aiolock_listeners") == 2
    assert path.exists()  # noqa: ASYNC240


async def test_rows_of_processes_that_do_little(url: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of many sweeps. Kept by SQLiteEngine.__init__."""
    monkeypatch.setattr("aiolock.backends.sqlite.engine.SWEEP", 10)
    for name in range(4):
        async with LockManager(url) as locks, locks.lock(f"a{name}"):
            pass
    with closing(sqlite3.connect(path)) as link:
        link.execute("UPDATE aiolock SET expires_us = 1")
        link.commit()
    for _ in range(200):  # on average, the fifth
        async with LockManager(url) as locks, locks.lock("b"):
            pass
        if rows(path, "aiolock") == 1:
            return
    raise AssertionError("nobody has swept")


async def test_the_log_after_a_reader_that_stayed(url: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shrinks again. Breaks if LockFile._prepare sets no journal_size_limit."""
    limit = 100_000
    monkeypatch.setattr("aiolock.backends.sqlite.file.LOG", limit)
    log = f"{path}-wal"
    async with LockManager(url) as locks:
        engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
        engine._link.execute("PRAGMA wal_autocheckpoint = 10")

        async def write(until: Callable[[int], bool]) -> None:
            async with asyncio.timeout(60):
                while not until(os.stat(log).st_size):
                    async with locks.lock("a"):
                        pass

        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM aiolock").fetchone()
            await write(lambda size: size > 2 * limit)
        await write(lambda size: size <= limit)
