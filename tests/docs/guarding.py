"""Preludes of the pages about writes that a resource refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from aiolock import LockManager
from tests.support.postgres import anew

Namespace = dict[str, Any]


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
