"""A lock for the length of a transaction, for threads: the same in the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import psycopg
import pytest

from aiolock import AcquireTimeout, ConfigurationError, LockManager
from aiolock.sync import hold_in
from tests.recipes.connections import PG, over_django, over_threads_alchemy, over_threads_psycopg

from .database import PostgresDatabase

Way = Callable[[str], AbstractAsyncContextManager[Any]]


def in_atomic(way: Way) -> Way:
    """In a block of Django."""

    @asynccontextmanager
    async def connect(url: str) -> AsyncIterator[Any]:
        from django.db import transaction

        async with way(url) as connection:
            with transaction.atomic():
                yield connection

    return connect


WAYS = {
    "psycopg": over_threads_psycopg,
    "session": over_threads_alchemy("postgresql+psycopg", True),
    "connection": over_threads_alchemy("postgresql+psycopg", False),
    "django": in_atomic(over_django(PG)),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Way:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")  # its queries block our loop, as this test wants it
    return WAYS[request.param]


async def test_it_excludes_leases_and_they_exclude_it(database: PostgresDatabase, way: Way) -> None:
    """Until its end; and its transaction goes on if it waited in vain. Kept by hold()."""
    async with LockManager(database.url) as locks:
        lease = await locks.lock("x").acquire()
        async with way(database.url) as connection:
            with pytest.raises(AcquireTimeout, match="held by a lease"):
                hold_in(connection, "x", timeout=0.05)
            hold_in(connection, "y")
            async with locks.lock("y").try_acquire() as taken:
                assert taken is None
        async with locks.lock("y").acquire(timeout=10):
            pass
        await lease.release()


async def test_it_waits_for_a_release(database: PostgresDatabase) -> None:
    """Kept by _stand()."""
    async with LockManager(database.url) as locks:
        lease = await locks.lock("x").acquire()

        def in_a_thread() -> None:
            with psycopg.connect(database.url) as connection:
                hold_in(connection, "x", timeout=20)

        thread = asyncio.create_task(asyncio.to_thread(in_a_thread))
        await asyncio.sleep(0.05)
        assert not thread.done()
        await lease.release()
        await asyncio.wait_for(thread, 20)


@pytest.mark.parametrize("way", [over_threads_alchemy("postgresql+psycopg", False, isolation_level="AUTOCOMMIT"),
    over_django(PG)], ids=["sqlalchemy", "django"])  # fmt: skip
async def test_without_a_transaction(database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    """It would be over at once."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    async with LockManager(database.url), way(database.url) as connection:
        with pytest.raises(ConfigurationError, match="needs an open transaction: begin one before"):
            hold_in(connection, "x")


async def test_a_connection_of_asyncio(database: PostgresDatabase) -> None:
    """The error names the other function. Kept by transactions()."""
    async with await psycopg.AsyncConnection.connect(database.url) as awaited:
        with pytest.raises(ConfigurationError, match=r"use aiolock\.hold_in\(\)"):
            hold_in(awaited, "x")
