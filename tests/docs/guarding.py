"""Preludes of the pages about writes that a resource refuses."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import psycopg
import pytest
import redis.asyncio

from aiolock import LockManager
from aiolock.recipes import guard
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
