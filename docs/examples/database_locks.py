"""Locks that people make of SQL in PostgreSQL, and what breaks each. Raises an error if one does not break as it says.

    python docs/examples/database_locks.py postgresql://app@localhost/app

It makes tables whose names begin with `demo_`, and drops them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import asyncpg

Link = asyncpg.Connection
SCHEMA = """
DROP TABLE IF EXISTS demo_lock, demo_stock;
CREATE TABLE demo_lock (name text PRIMARY KEY, until timestamptz NOT NULL);
CREATE TABLE demo_stock (sku int PRIMARY KEY, quantity int NOT NULL);
INSERT INTO demo_stock VALUES (7, 10);
"""
TAKE = """INSERT INTO demo_lock VALUES ('sku:7', clock_timestamp() + interval '1 s') ON CONFLICT (name) DO UPDATE
  SET until = excluded.until WHERE demo_lock.until < clock_timestamp() RETURNING 1"""


async def read(link: Link) -> int:
    return int(await link.fetchval("SELECT quantity FROM demo_stock WHERE sku = 7"))


async def write(link: Link, quantity: int) -> None:
    await link.execute("UPDATE demo_stock SET quantity = $1 WHERE sku = 7", quantity)


async def unique_row(one: Link, two: Link, _watch: Link) -> str:
    """A row with a unique name, taken with INSERT, until its time is over."""
    assert await one.fetchval(TAKE) == 1
    left = await read(one)
    assert await two.fetchval(TAKE) is None  # so far it works
    await asyncio.sleep(1.1)  # the first stands still: a long collection of garbage, a paused machine
    assert await two.fetchval(TAKE) == 1
    await write(two, await read(two) - 1)
    await write(one, left - 1)
    assert await read(one) == 9  # two were sold
    return "a holder that stood still writes late; without a time, a dead one keeps it for ever"


async def for_update(one: Link, two: Link, _watch: Link) -> str:
    """SELECT … FOR UPDATE."""
    held = one.transaction()
    await held.start()
    await one.fetch("SELECT * FROM demo_stock WHERE sku = 7 FOR UPDATE")
    await two.execute("SET lock_timeout = '0.3 s'")
    try:  # the first stands still
        await two.fetch("SELECT * FROM demo_stock WHERE sku = 7 FOR UPDATE")
    except asyncpg.LockNotAvailableError:
        await held.rollback()
        return "a holder that stands still keeps all others waiting, and a connection, as long as its session lives"
    raise AssertionError


async def advisory(one: Link, two: Link, watch: Link) -> str:
    """pg_advisory_lock."""
    own, mine = one.get_server_pid(), two  # what the first works on is elsewhere
    await one.fetchval("SELECT pg_advisory_lock(7)")
    left = await read(mine)
    await watch.fetchval("SELECT pg_terminate_backend($1, 5000)", own)  # a restart, a failover, an idle timeout
    assert await watch.fetchval("SELECT pg_try_advisory_lock(7)")
    await write(watch, await read(watch) - 1)
    await write(mine, left - 1)
    assert await read(watch) == 9  # two were sold
    return "the session ends, and nobody tells the holder; behind a pooler, another session has it"


WAYS: tuple[Callable[[Link, Link, Link], Awaitable[str]], ...] = (unique_row, for_update, advisory)


async def show(url: str) -> list[tuple[str, str]]:
    """Return each way, and what broke it."""
    seen = []
    for way in WAYS:
        links = [await asyncpg.connect(url) for _ in range(3)]
        try:
            await links[2].execute(SCHEMA)
            seen.append((way.__doc__ or "", await way(*links)))
            await links[2].execute("DROP TABLE demo_lock, demo_stock")
        finally:
            for link in links:
                await link.close(timeout=5)
    return seen


if __name__ == "__main__":
    for name, broken in asyncio.run(show(sys.argv[1])):
        print(f"{name}\n    {broken}")
