"""Locks that people make of SQL in MariaDB or MySQL, and what breaks each. Raises an error if one does not break as it
says.

    python docs/examples/mysql_locks.py mysql://app@localhost/app

It makes tables whose names begin with `demo_`, and drops them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from urllib.parse import unquote, urlsplit

import asyncmy

SCHEMA = (
    "DROP TABLE IF EXISTS demo_lock, demo_stock",
    "CREATE TABLE demo_lock (name VARCHAR(64) PRIMARY KEY, until DATETIME(6) NOT NULL)",
    "CREATE TABLE demo_stock (sku INT PRIMARY KEY, quantity INT NOT NULL)",
    "INSERT INTO demo_stock VALUES (7, 10)",
)
FREE = "DELETE FROM demo_lock WHERE name = 'sku:7' AND until < NOW(6)"
TAKE = "INSERT IGNORE INTO demo_lock VALUES ('sku:7', NOW(6) + INTERVAL 1 SECOND)"
LOCKED = 1205
"""The number of the error of a wait that was too long."""


class Link:
    """A session, for statements that commit by themselves."""

    def __init__(self, connection: asyncmy.Connection) -> None:
        self.connection = connection

    async def run(self, statement: str) -> int:
        """Execute a statement; return its one number, or how many rows it has changed."""
        async with self.connection.cursor() as cursor:
            changed: int = await cursor.execute(statement)
            found = await cursor.fetchone() if cursor.description else (changed,)
            return int(found[0])

    async def read(self) -> int:
        return await self.run("SELECT quantity FROM demo_stock WHERE sku = 7")

    async def write(self, quantity: int) -> None:
        await self.run(f"UPDATE demo_stock SET quantity = {quantity} WHERE sku = 7")


async def unique_row(one: Link, two: Link, _watch: Link) -> str:
    """A row with a unique name, taken with INSERT, until its time is over."""
    assert await one.run(TAKE) == 1
    left = await one.read()
    assert await two.run(FREE) + await two.run(TAKE) == 0  # so far it works
    await asyncio.sleep(1.1)  # the first stands still: a long collection of garbage, a paused machine
    await two.run(FREE)
    assert await two.run(TAKE) == 1
    await two.write(await two.read() - 1)
    await one.write(left - 1)
    assert await one.read() == 9  # two were sold
    return "a holder that stood still writes late; without a time, a dead one keeps it for ever"


async def for_update(one: Link, two: Link, _watch: Link) -> str:
    """SELECT … FOR UPDATE."""
    await one.run("BEGIN")
    await one.run("SELECT quantity FROM demo_stock WHERE sku = 7 FOR UPDATE")
    await two.run("SET SESSION innodb_lock_wait_timeout = 1")
    try:  # the first stands still
        await two.run("SELECT quantity FROM demo_stock WHERE sku = 7 FOR UPDATE")
    except asyncmy.MySQLError as error:
        if error.args[0] != LOCKED:
            raise
        await one.run("ROLLBACK")
        return "a holder that stands still keeps all others waiting, and a connection, as long as its session lives"
    raise AssertionError


async def get_lock(one: Link, two: Link, watch: Link) -> str:
    """GET_LOCK."""
    own, mine = one.connection.thread_id(), two  # what the first works on is elsewhere
    assert await one.run("SELECT GET_LOCK('sku:7', 0)") == 1
    left = await mine.read()
    await watch.run(f"KILL {own}")  # a restart, a failover, an idle timeout
    assert await watch.run("SELECT GET_LOCK('sku:7', 5)") == 1
    await watch.write(await watch.read() - 1)
    await mine.write(left - 1)
    assert await watch.read() == 9  # two were sold
    return "the session ends, and nobody tells the holder; behind a pooler, another session has it"


WAYS: tuple[Callable[[Link, Link, Link], Awaitable[str]], ...] = (unique_row, for_update, get_lock)


async def connect(url: str) -> Link:
    at = urlsplit(url)
    connection = await asyncmy.connect(
        host=at.hostname or "localhost",
        port=at.port or 3306,
        user=unquote(at.username or ""),
        password=unquote(at.password or ""),
        database=at.path[1:],
        autocommit=True,
    )
    return Link(connection)


async def show(url: str) -> list[tuple[str, str]]:
    """Return each way, and what broke it."""
    seen = []
    for way in WAYS:
        links = [await connect(url) for _ in range(3)]
        try:
            for statement in SCHEMA:
                await links[2].run(statement)
            seen.append((way.__doc__ or "", await way(*links)))
            await links[2].run("DROP TABLE demo_lock, demo_stock")
        finally:
            for link in links:
                link.connection.close()
    return seen


if __name__ == "__main__":
    for name, broken in asyncio.run(show(sys.argv[1])):
        print(f"{name}\n    {broken}")
