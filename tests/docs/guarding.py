"""Preludes of the pages about writes that a resource refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiosqlite
import psycopg
import pytest
import redis.asyncio

from aiolock import LockManager
from aiolock.recipes import guard
from aiolock.recipes.fenced import FENCES_TABLE
from tests.support.postgres import anew

Namespace = dict[str, Any]


@asynccontextmanager
async def guarded(url: str) -> AsyncIterator[Namespace]:
    """A manager and a client of the same server, which has ten items of sku 7, for a block that writes."""
    async with LockManager(url) as locks, redis.asyncio.from_url(url) as own:
        await own.set("stock:7", 10)
        client = redis.asyncio.from_url(url)
        namespace = {"locks": locks, "client": client, "guard": guard}
        yield namespace
        for each in {client, namespace["client"]}:
            await each.aclose()
        assert len(await own.keys("*")) > 3  # the lock, its last write, and what was written
        assert not await locks.lock("order:42").is_locked()


SCHEMA = """
CREATE TABLE stock (sku text PRIMARY KEY, quantity bigint, fence bigint NOT NULL DEFAULT 0);
CREATE TABLE fences (lock text PRIMARY KEY, fence bigint NOT NULL);
CREATE TABLE sales (sku text, buyer text);
INSERT INTO stock (sku, quantity) VALUES ('7', 10);
"""


@asynccontextmanager
async def postgres(url: str) -> AsyncIterator[Namespace]:
    """A database with the tables of the page, for a block with `raise_fence` and `sell`: a stale holder is refused."""
    namespace: Namespace = {}
    yield namespace
    async with LockManager(url) as locks:
        db = await psycopg.AsyncConnection.connect(anew(*SCHEMA.strip().splitlines()), autocommit=True)
        async with db:
            stale = await locks.lock("sku:7").acquire()
            await stale.release()
            async with locks.lock("sku:7") as lease:
                await namespace["sell"](db, lease)
            with pytest.raises(RuntimeError, match="refused"):
                await namespace["sell"](db, stale)
            assert await (await db.execute("SELECT buyer FROM sales")).fetchall() == [("ada",)]
            assert await (await db.execute("SELECT quantity FROM stock")).fetchall() == [(9,)]


@asynccontextmanager
async def fenced(url: str) -> AsyncIterator[Namespace]:
    """A connection with the tables of the page, for a block that sells one of sku 7."""
    async with LockManager(url) as locks, aiosqlite.connect(":memory:") as connection:
        await connection.executescript(SCHEMA)
        await connection.execute(FENCES_TABLE)
        yield {"locks": locks, "connection": connection}
        for question, answer in (
            ("SELECT quantity FROM stock", (9,)),
            ("SELECT buyer FROM sales", ("ada",)),
            ("SELECT count(*) FROM aiolock_fences", (1,)),
        ):
            assert await (await connection.execute(question)).fetchone() == answer
