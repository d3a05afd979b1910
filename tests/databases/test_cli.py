"""The command line on a database: it shows what is there, and changes nothing but what you tell it to."""

from __future__ import annotations

import asyncio

from aiolock import LockManager
from tests.cli import stores
from tests.cli.conftest import CommandLine

from .database import Database

aiolock = stores.aiolock
test_force_release = stores.test_force_release
test_ls_and_info = stores.test_ls_and_info
test_run = stores.test_run


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
