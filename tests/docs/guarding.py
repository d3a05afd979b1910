"""Preludes of the pages about writes that a resource refuses."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import aiohttp
import aiosqlite
import psycopg
import pytest
import redis.asyncio
from aiohttp import web

from aiolock import LockManager
from aiolock.recipes import guard
from aiolock.recipes.fenced import FENCES_TABLE
from aiolock.testing import MemoryBackend
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
    """A database with the tables of the page, for a block with `set_stock` or `raise_fence`, which refuses."""
    async with LockManager(url) as locks:
        db = await psycopg.AsyncConnection.connect(anew(*SCHEMA.strip().splitlines()), autocommit=True)
        async with db:
            namespace = {"locks": locks, "db": db}
            yield namespace
            await _refuses_stale(db, namespace)


async def _refuses_stale(db: Any, namespace: Namespace) -> None:
    """A stale holder is refused, and all that its transaction did is undone."""
    if "set_stock" in namespace:
        await namespace["set_stock"](db, "new", 5, 100)
        await namespace["set_stock"](db, "new", 4, 100)
        with pytest.raises(namespace["Stale"]):
            await namespace["set_stock"](db, "new", 3, 99)
        rows = await db.execute("SELECT sku, quantity FROM stock ORDER BY sku")
        assert await rows.fetchall() == [("7", 9), ("new", 4)]
        return
    await namespace["raise_fence"](db, "a", 100)

    async def stale() -> None:
        async with db.transaction():
            await db.execute("INSERT INTO sales (sku, buyer) VALUES ('7', 'bob')")
            await namespace["raise_fence"](db, "a", 99)

    with pytest.raises(RuntimeError, match="refused"):
        await stale()
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


@asynccontextmanager
async def sqlite_stock(url: str) -> AsyncIterator[Namespace]:
    """The same tables in SQLite, for a block that defines `set_stock`."""
    async with LockManager(url) as locks:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.executescript(SCHEMA)
            namespace = {"locks": locks, "db": db}
            yield namespace
            namespace["set_stock"](db, "new", 5, 100)
            with pytest.raises(RuntimeError, match="refused"):
                namespace["set_stock"](db, "new", 3, 99)
            assert db.execute("SELECT sku, quantity FROM stock ORDER BY sku").fetchall() == [("7", 9), ("new", 5)]


@asynccontextmanager
async def http_resource(url: str) -> AsyncIterator[Namespace]:
    """For a block with an aiohttp `app`, and `write`, its client: two holders write, and then the first one again."""
    namespace: Namespace = {}
    yield namespace
    runner = web.AppRunner(namespace["app"])
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with LockManager(MemoryBackend()) as locks, aiohttp.ClientSession(base) as session:
        old, lock = None, locks.lock("document")
        for text in ("first", "second"):
            async with lock as lease:
                await namespace["write"](session, "a", text, lease)
                old = old or lease
        with pytest.raises(RuntimeError, match="refused"):
            await namespace["write"](session, "a", "late", old)
    assert namespace["documents"]["a"][0] == "second"
    await runner.cleanup()


@asynccontextmanager
async def shelf(url: str) -> AsyncIterator[Namespace]:
    """Ten items of sku 7, for a block that defines `buy(sku, customer)`: 25 customers at once buy ten of them."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(
            "CREATE TABLE stock (sku TEXT PRIMARY KEY, quantity INTEGER, version INTEGER DEFAULT 0);"
            "CREATE TABLE sales (sku TEXT, item INTEGER, customer TEXT, UNIQUE (sku, item));"
            "INSERT INTO stock (sku, quantity) VALUES ('7', 10)"
        )

        async def pay(customer: str) -> None:
            await asyncio.sleep(0)

        namespace = {"asyncio": asyncio, "check_for_fraud": pay, "db": db, "pay": pay, "sqlite3": sqlite3}
        yield namespace
        bought = await asyncio.gather(*(namespace["buy"]("7", f"customer {number}") for number in range(25)))
        assert sum(bought) == 10


@asynccontextmanager
async def python_redis_lock(url: str) -> AsyncIterator[Namespace]:
    """For a block that uses it, if it is installed: `pip install python-redis-lock`."""
    pytest.importorskip("redis_lock")
    async with _user(url) as namespace:
        yield namespace
        namespace["blocking"].close()


@asynccontextmanager
async def pottery(url: str) -> AsyncIterator[Namespace]:
    """For a block that uses it, if it is installed: `pip install pottery`."""
    pytest.importorskip("pottery")
    async with _user(url) as namespace:
        yield namespace
        await namespace["client"].aclose()


@asynccontextmanager
async def _user(url: str) -> AsyncIterator[Namespace]:
    """Work that is done inside of a lock: once, for order 42, while the server has a key for it."""
    charged: list[str] = []

    async def charge(order: str) -> None:
        async with redis.asyncio.from_url(url) as client:
            assert any(order in key.decode() for key in await client.keys("*"))
        charged.append(order)

    yield {"charge": charge}
    assert charged == ["42"]
