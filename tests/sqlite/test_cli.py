"""The command line on a file: it shows what is there, and changes nothing but what you tell it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from aiolock import LockLost, LockManager
from aiolock.backends.redis import ErrorReply
from aiolock.backends.sqlite.reader import FileReader, _matcher
from tests.cli.conftest import CommandLine


@pytest.fixture
def aiolock(url: str, tmp_path: Path) -> CommandLine:
    return CommandLine(url, tmp_path)


@asynccontextmanager
async def scene(url: str) -> AsyncIterator[LockManager]:
    async with LockManager(url) as one, LockManager(url) as two, AsyncExitStack() as held:
        await held.enter_async_context(one.lock("order:42", metadata="charge"))
        await held.enter_async_context(one.semaphore("api", 5).acquire(3))
        await held.enter_async_context(two.rw_lock("catalog").read)
        waiting = asyncio.ensure_future(two.lock("order:42").acquire())
        async with asyncio.timeout(20):
            while (info := await two.fair_lock("order:42").info()) is None or not info.waiters:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        try:
            yield one
        finally:
            waiting.cancel()
            await asyncio.wait((waiting,))


async def test_ls_and_info(url: str, aiolock: CommandLine) -> None:
    """Kept by FileReader."""
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

        async def hold() -> None:
            async with locks.lock("a"):
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        async with asyncio.timeout(20):
            while not await locks.lock("a").is_locked():  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            done = await asyncio.to_thread(aiolock, "force-release", "a", "--yes")
            assert done.exit_code == 0, done.output
            with pytest.raises(LockLost):
                await task


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


def test_run(aiolock: CommandLine) -> None:
    assert aiolock("run", "a", "--", "true").exit_code == 0


async def test_a_key_of_another_type(url: str, path: Path) -> None:
    async with LockManager(url) as locks, locks.lock("a"):
        (reply,) = await FileReader(path).read([("ZRANGE", "aiolock:lock:{a}", "0", "-1")])
        assert isinstance(reply, ErrorReply)
        assert "WRONGTYPE" in str(reply)


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
    """As Redis reads them. Kept by _matcher."""
    matches = _matcher(pattern)
    assert [text for text in yes + no if matches(text)] == yes
