"""The command line on a database: it shows what is there, and changes nothing but what you tell it to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from aiolock import LockLost, LockManager
from aiolock.backends.postgres import DatabaseReader
from aiolock.cli.examination import Level, examine_database
from tests.cli.conftest import CommandLine
from tests.sqlite.test_cli import scene

from .database import PostgresDatabase


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


async def test_doctor(database: PostgresDatabase, aiolock: CommandLine) -> None:
    missing = await asyncio.to_thread(aiolock, "doctor")
    assert missing.exit_code != 0
    assert "nobody has kept locks in this database" in missing.output
    assert database.run("SELECT to_regnamespace('aiolock')") == [(None,)]
    async with LockManager(database.url):
        pass
    found = await asyncio.to_thread(aiolock, "doctor")
    assert "PostgreSQL" in found.output


SOUND: dict[str, object] = {
    "version": "18.4",
    "commit": "on",
    "fsync": "on",
    "standbys": "",
    "replicas": 0,
    "granted": True,
    "standby": False,
    "pages": "on",
    "left": 90,
    "in_place": 0.99,
    "old": 3,
    "isolation": "read committed",
}
"""What a database answers in which all is well."""


@pytest.mark.parametrize(
    ("other", "topic", "level"),
    [
        ({}, "crash", Level.OK),
        ({"commit": "off"}, "crash", Level.PROBLEM),
        ({"fsync": "off"}, "crash", Level.PROBLEM),
        ({"pages": "off"}, "crash", Level.PROBLEM),
        ({"replicas": 1}, "failover", Level.ADVICE),
        ({"commit": "local", "standbys": "*", "replicas": 1}, "failover", Level.ADVICE),
        ({"granted": False}, "rights", Level.PROBLEM),
        ({"standby": True}, "topology", Level.PROBLEM),
        ({"left": 19}, "sessions", Level.ADVICE),
        ({"in_place": 0.5}, "table", Level.ADVICE),
        ({"old": 1_000_001}, "table", Level.ADVICE),
        ({"isolation": "serializable"}, "isolation", Level.PROBLEM),
    ],
)
def test_what_doctor_says(other: dict[str, object], topic: str, level: Level) -> None:
    assert level in [found.level for found in examine_database([*(SOUND | other).values()]) if found.topic == topic]


def test_what_doctor_does_not_say() -> None:
    """Kept by examine_database: `standbys`, and what is unknown."""
    for other in ({"standbys": "*", "replicas": 1}, {"in_place": None, "old": None}, {"in_place": 1.0, "old": 7}):
        assert {found.level for found in examine_database([*(SOUND | other).values()])} == {Level.OK}


async def test_a_look_at_many_names(database: PostgresDatabase) -> None:
    """It takes pages, in the order of the keys. Kept by `PAGE`."""
    async with LockManager(database.url):
        pass
    database.run(
        "INSERT INTO aiolock.rows SELECT 'k' || n || CASE n WHEN 7 THEN '%00' ELSE '' END, 'string', '\"x\"', NULL, 1 "
        "FROM generate_series(1, 25) AS n"
    )
    reader = DatabaseReader(database.url)
    keys = [key async for found in reader.scan("k*", most=10) for key in found]
    assert sorted(keys) == sorted("k7\0" if n == 7 else f"k{n}" for n in range(1, 26))
    await reader.close()
