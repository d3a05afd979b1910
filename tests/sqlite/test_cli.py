"""The command line on a file: it shows what is there, and changes nothing but what you tell it to."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from aiolock import BackendError, LockManager
from aiolock.backends.reader import BATCH
from aiolock.backends.redis import ErrorReply
from aiolock.backends.sqlite.reader import FileReader
from aiolock.backends.survey import Survey
from aiolock.backends.transactional.loaded import Loaded, Row
from aiolock.backends.transactional.replies import matcher
from aiolock.cli.namespace import Namespace
from tests.cli import stores
from tests.cli.conftest import CommandLine

aiolock = stores.aiolock
test_force_release = stores.test_force_release
test_ls_and_info = stores.test_ls_and_info
test_run = stores.test_run


def test_doctor(url: str, path: Path, aiolock: CommandLine) -> None:
    missing = aiolock("doctor")
    assert missing.exit_code != 0
    assert "there is no file" in missing.output
    assert not path.exists()

    async def make() -> None:
        async with LockManager(url):
            pass

    asyncio.run(make())
    found = aiolock("doctor")
    assert found.exit_code == 0, found.output
    assert "can be written, with a write-ahead log" in found.output
    assert "by Unix sockets" in found.output


def test_a_file_that_is_missing(aiolock: CommandLine, path: Path) -> None:
    """It is not made by a look."""
    found = aiolock("ls")
    assert found.exit_code != 0
    assert "there is no file" in found.output
    assert not path.exists()


async def test_a_key_of_another_type(url: str, path: Path) -> None:
    async with LockManager(url) as locks, locks.lock("a"):
        reader = FileReader(path)
        (reply,) = await reader.read([("ZRANGE", "aiolock:lock:{a}", "0", "-1")])
        await reader.close()
        assert isinstance(reply, ErrorReply)
        assert "WRONGTYPE" in str(reply)


def many(path: Path, names: int) -> None:
    """Give the file as many names, all free, by copies of one row."""
    link = sqlite3.connect(path)
    ((key, kind, value, expires),) = link.execute("SELECT * FROM aiolock")
    copies = ((key.replace("{a}", f"{{order:{number}}}"), kind, value, expires) for number in range(names))
    with link:
        link.executemany("INSERT INTO aiolock VALUES(?, ?, ?, ?)", copies)
    link.close()


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


async def test_a_look_at_many_names_reads_each_once_and_stops_nobody(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer has the file all the time; and each row is read once. Kept by
    FileReader._replies.
    """
    async with LockManager(url, ttl=60) as locks:
        async with locks.lock("a"):
            pass
        writer = sqlite3.connect(path, isolation_level=None)
        read: list[int] = []

        def loaded(now_us: int, rows: Mapping[str, Row], listeners: Callable[[str], int]) -> Loaded:
            read.append(len(rows))
            return Loaded(now_us, rows, listeners)

        monkeypatch.setattr("aiolock.backends.transactional.replies.Loaded", loaded)
        many(path, 5000)
        async with Survey(url) as survey:
            names = Namespace(survey, "aiolock")
            await names.check("*")  # opens the file
            writer.execute("BEGIN IMMEDIATE")
            found = await names.find()
            writer.execute("ROLLBACK")
        writer.close()
        assert len(found.views) == 5001
        assert sum(read) == 5001
        assert max(read) <= BATCH


async def test_a_look_at_a_file_that_was_replaced(url: str, path: Path) -> None:
    """`top` shows the new one. Kept by FileReader._use."""
    reader = FileReader(path)
    for name in ("a", "b"):
        async with LockManager(url, ttl=60) as locks, locks.lock(name):
            (exists,) = await reader.read([("EXISTS", f"aiolock:lock:{{{name}}}")])
            assert exists == 1
        remove(path)
    with pytest.raises(BackendError, match="there is no file"):
        await reader.read([])
    await reader.close()


async def test_a_look_at_a_file_from_before_a_reboot(url: str, path: Path) -> None:
    """The clock goes on in it, if nobody else has opened it yet. Kept by FileReader._replies."""
    async with LockManager(url, ttl=60) as locks, locks.lock("a") as lease:
        fence = lease.fence
    link = sqlite3.connect(path)
    with link:
        link.execute("UPDATE aiolock_clock SET boot = 'earlier', ahead_us = 0")
    link.close()
    reader = FileReader(path)
    await reader.read([])
    assert reader.now_us > fence
    await reader.close()


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a*", ["a", "ab", "a\n"], ["ba"]),
        ("a?c", ["abc", "a\nc"], ["ac", "abbc"]),
        (r"a\*", ["a*"], ["ab"]),
        (r"\[x\]", ["[x]"], ["x"]),
        ("[ab]c", ["ac", "bc"], ["cc"]),
        ("[^a]c", ["bc"], ["ac"]),
        ("a.c", ["a.c"], ["abc"]),
    ],
)
def test_patterns(pattern: str, yes: list[str], no: list[str]) -> None:
    """As Redis reads them. Kept by matcher."""
    matches = matcher(pattern)
    assert [text for text in yes + no if matches(text)] == yes
