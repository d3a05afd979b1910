"""The command line on a database: it shows what is there, and changes nothing but what you tell it to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from aiolock import LockLost, LockManager
from tests.cli.conftest import CommandLine
from tests.sqlite.test_cli import scene

from .database import Database


@pytest.fixture
def aiolock(url: str, tmp_path: Path) -> CommandLine:
    return CommandLine(url, tmp_path)


async def test_ls_and_info(url: str, aiolock: CommandLine) -> None:
    """Kept by DatabaseReader."""
    async with scene(url):
        listed = await asyncio.to_thread(aiolock, "ls", "--json")
        assert listed.exit_code == 0, listed.output
        assert {view["name"] for view in json.loads(listed.output)} == {"order:42", "api", "catalog"}
        some = await asyncio.to_thread(aiolock, "ls", "order:*", "--json")
        assert [view["name"] for view in json.loads(some.output)] == ["order:42"]
        told = await asyncio.to_thread(aiolock, "info", "order:42")
        assert told.exit_code == 0, told.output
        assert "charge" in told.output
        assert "waiting" in told.output


async def test_force_release(url: str, aiolock: CommandLine) -> None:
    async with LockManager(url) as locks:
        lease = await locks.lock("a").acquire()
        done = await asyncio.to_thread(aiolock, "force-release", "a", "--yes")
        assert done.exit_code == 0, done.output
        with pytest.raises(LockLost):
            await lease.release()


def test_run(aiolock: CommandLine) -> None:
    done = aiolock("run", "a", "--", "true")
    assert done.exit_code == 0, done.output


async def test_doctor(database: Database, aiolock: CommandLine) -> None:
    missing = await asyncio.to_thread(aiolock, "doctor")
    assert missing.exit_code != 0
    assert "nobody has kept locks in this database" in missing.output
    assert database.made() == []
    async with LockManager(database.url):
        pass
    found = await asyncio.to_thread(aiolock, "doctor")
    assert f"{database.careless} is" in found.output


async def test_a_look_at_many_names(database: Database) -> None:
    """It takes pages, in the order of the keys. Kept by `PAGE`."""
    async with LockManager(database.url):
        pass
    for number in range(1, 26):
        key = f"k{number}" + ("%00" if number == 7 else "")
        database.run(f"INSERT INTO {database.rows} VALUES(%s, 'string', '\"x\"', NULL, 1)", key)
    reader = database.reader()
    keys = [key async for found in reader.scan("k*", most=10) for key in found]
    assert sorted(keys) == sorted("k7\0" if n == 7 else f"k{n}" for n in range(1, 26))
    await reader.close()
