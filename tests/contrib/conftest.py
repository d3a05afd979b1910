"""The frameworks, in process, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from aiolock import LockManager
from tests.support import root_logger

NAME = "order:42"


class Work:
    """What a handler does under its lock: it says that it has begun, and waits until it may end, or is cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = 0

    async def __call__(self) -> None:
        self.begun.set()
        try:
            async with asyncio.timeout(10):
                await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@pytest.fixture(autouse=True)
def root_logger_kept() -> Iterator[None]:
    """Frameworks configure logging for the whole process."""
    with root_logger.kept():
        yield


@pytest.fixture
async def work() -> Work:
    """For one application."""
    return Work()


@pytest.fixture
async def elsewhere(redis_url: str) -> AsyncIterator[LockManager]:
    """Another process."""
    async with LockManager(redis_url) as manager:
        yield manager
        assert not await manager.lock(NAME).is_locked()
