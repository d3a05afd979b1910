"""A row that somebody has edited: who needs it is told which; all others go on."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aiolock import BackendError, LockManager
from aiolock.core.renewals import Renewals
from aiolock.events import Disconnected, Event
from tests.cli.conftest import CommandLine

ENOUGH = 20.0
KEY = "aiolock:lock:{held}"
EDITS = [
    ("value", "x"),
    ("value", ""),
    ("value", 7),
    ("value", b"\xff"),
    ("value", "[]"),
    ("value", '{"owner": 7}'),
    ("value", "[" * 9999),
    ("kind", "zset"),
    ("kind", "list"),
    ("expires_us", "tomorrow"),
]


def edit(path: Path, column: str, value: object) -> None:
    with closing(sqlite3.connect(path)) as link:
        assert link.execute(f"UPDATE aiolock SET {column} = ? WHERE key = ?", (value, KEY)).rowcount == 1
        link.commit()


def row(path: Path) -> tuple[object, ...] | None:
    with closing(sqlite3.connect(path)) as link:
        found: tuple[object, ...] | None = link.execute("SELECT * FROM aiolock WHERE key = ?", (KEY,)).fetchone()
    return found


@pytest.mark.parametrize(("column", "value"), EDITS)
async def test_a_damaged_row(url: str, path: Path, column: str, value: object) -> None:
    """It is left as it is. Kept by Loaded.__init__ and Loaded.changes."""
    events: list[Event] = []
    async with LockManager(url, ttl=60, observer=events.append) as locks, locks.lock("other") as other:
        lease = await locks.lock("held", cancel_on_loss=False).acquire()
        edit(path, column, value)
        damaged = row(path)
        async with LockManager(url, ttl=60) as others, asyncio.timeout(ENOUGH):
            with pytest.raises(BackendError, match=rf"the row of key '{KEY}' cannot be read: delete it"):
                await others.lock("held").acquire(timeout=0)
            async with others.lock("another"):
                pass
        with pytest.raises(BackendError, match="cannot be read"):
            await lease.release()
        async with locks.lock("another"):
            other.ensure()
        assert row(path) == damaged
    assert not any(isinstance(event, Disconnected) for event in events)


async def test_renewals_of_others(url: str, path: Path) -> None:
    """One request renews all that a manager holds. Kept by renew.lua."""
    async with LockManager(url, ttl=60) as locks, locks.lock("other") as other:
        lease = await locks.lock("held", cancel_on_loss=False).acquire()
        edit(path, "value", "x")
        before = other._hold.deadline
        runtime = locks._runtime
        Renewals(runtime.backend, runtime.observers).write([lease._hold, other._hold])
        async with asyncio.timeout(ENOUGH):
            while other._hold.deadline == before:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        with pytest.raises(BackendError, match="cannot be read"):
            await lease.release()


async def test_the_command_line(url: str, path: Path, tmp_path: Path) -> None:
    """It shows what is not damaged. Kept by Reader._concerns_a_key."""
    async with LockManager(url, ttl=60) as locks, locks.lock("other"):
        await locks.lock("held").acquire(timeout=0)
        edit(path, "value", "x")
        listed = await asyncio.to_thread(CommandLine(url, tmp_path), "ls")
        assert listed.exit_code == 0, listed.output
        assert "other" in listed.output
