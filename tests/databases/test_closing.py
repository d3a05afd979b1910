"""A manager that is closed leaves no session, also if closing is cancelled."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from aiolock import LockManager

from .database import Database


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Sessions do not end because nobody refers to them."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
async def test_closing_is_cancelled(database: Database) -> None:
    """At each of its first suspensions. Kept by ServedEngine.aclose: `finally`."""
    managers = [LockManager(database.url) for _ in range(6)]
    for turns, manager in enumerate(managers, 1):
        await manager.open()
        closing = asyncio.create_task(manager.aclose())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
    async with asyncio.timeout(5):
        while database.sessions():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
