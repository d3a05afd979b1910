"""What the command line shows and does whatever keeps the locks. The folder of each store imports these tests; its
fixture `url` says where they run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from aiolock import LockLost, LockManager

from .conftest import CommandLine


@pytest.fixture
def aiolock(url: str, tmp_path: Path) -> CommandLine:
    return CommandLine(url, tmp_path)


@asynccontextmanager
async def scene(url: str) -> AsyncIterator[LockManager]:
    """A lock with a waiter, a semaphore, a read-write lock."""
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
    """Kept by the store's reader."""
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
