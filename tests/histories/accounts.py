"""What the locks of a round protect in a database: a number that only `fenced()` changes, once a unit of work."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from aiolock import CommitUnknown, Lease, LockLost, TransactionError, fenced
from aiolock.recipes.fences_table import FENCES_TABLE, FENCES_TABLE_OF_MYSQL
from tests.support.mywire import MySQLFramer
from tests.support.pgwire import PostgresFramer
from tests.support.proxy import FaultProxy, Framing

TABLES = (
    "CREATE TABLE account (total bigint NOT NULL)",
    "INSERT INTO account VALUES (0)",
    "CREATE TABLE entry (unit bigint NOT NULL, fence bigint NOT NULL, seen bigint NOT NULL)",
)
FENCES = {"postgresql": FENCES_TABLE, "mysql": FENCES_TABLE_OF_MYSQL}
DRIVERS = {"postgresql": "postgresql+asyncpg", "mysql": "mysql+asyncmy"}
FRAMINGS: dict[str, Framing] = {"postgresql": PostgresFramer, "mysql": MySQLFramer}
MISHAPS = (DBAPIError, OSError, TransactionError, CommitUnknown)
"""Of a database whose sessions are ended."""
TRIES = 3
LATE = 0.3
"""Seconds that a COMMIT may take which nobody waits for any more."""


class Accounts:
    """One number, and an entry for each unit of work that has increased it.

    Args:
        scheme: "postgresql" or "mysql".
        database: its name.
        where: the server's host or Unix socket, and its port.
    """

    def __init__(self, scheme: str, database: str, where: tuple[str, int]) -> None:
        self._scheme, self._database, self._where = scheme, database, where
        logging.getLogger("sqlalchemy").setLevel(logging.CRITICAL)  # what it says of sessions that are ended on purpose

    async def increase(
        self, lease: Lease, stay: float, dice: random.Random, wrote: Callable[[float, bool | None], None]
    ) -> None:
        """Do one unit of work: read the number, stay, and write it. Tell whether it was done: False if it was refused,
        None if nobody knows.

        Often COMMIT is lost, late, or not answered: then look whether it was done, and do it again only if not. Of what
        was not done in the end there is nothing to tell.
        """
        since, unit = time.monotonic(), dice.getrandbits(62)
        accepted: bool | None = None
        try:
            for _ in range(TRIES):
                accepted = None
                done = await self._try(lease, unit, stay, dice.choice((None, None, "cut", "lose", "late")))
                if done is not False:
                    accepted = done
                    break
            else:
                return
        except MISHAPS:
            pass
        except BaseException as error:
            # One that has lost its lease has not asked the database: nothing is there.
            wrote(since, False if isinstance(error, LockLost) and not lease.lost else None)
            raise
        wrote(since, accepted)

    async def _try(self, lease: Lease, unit: int, stay: float, fault: str | None) -> bool | None:
        async with AsyncExitStack() as stack:
            proxy = None
            if fault is not None:
                made = FaultProxy(*self._where, framing=FRAMINGS[self._scheme])
                proxy = await stack.enter_async_context(made)
            connection = await self._connect(stack, proxy)
            block = fenced(lease, connection)
            try:
                async with block:
                    found = await connection.execute(text("SELECT total FROM account"))
                    seen = int(found.scalar_one())
                    await asyncio.sleep(stay)
                    await connection.execute(text(f"UPDATE account SET total = {seen + 1}"))
                    await connection.execute(text(f"INSERT INTO entry VALUES ({unit}, {lease.fence}, {seen})"))
                    if proxy is not None:
                        _break(proxy, fault)
            except CommitUnknown:
                return await block.committed(await self._connect(stack, None))
        return True

    async def _connect(self, stack: AsyncExitStack, proxy: FaultProxy | None) -> AsyncConnection:
        engine = self._engine(proxy)
        stack.push_async_callback(engine.dispose)
        connection = await engine.connect()
        stack.push_async_callback(_closed, connection)
        return connection

    def _engine(self, proxy: FaultProxy | None) -> AsyncEngine:
        host, port = ("127.0.0.1", proxy.port) if proxy is not None else self._where
        user = "root" if self._scheme == "mysql" else "postgres"
        address, given = f"{DRIVERS[self._scheme]}://{user}@{host}:{port}/{self._database}", {}
        if host.startswith("/"):  # a socket, whose folder PostgreSQL's clients want to know
            address, given = f"{DRIVERS[self._scheme]}://{user}@/{self._database}", {"host": host.rpartition("/")[0]}
        elif self._scheme == "postgresql":
            given = {"ssl": "disable"}
        return create_async_engine(address, poolclass=NullPool, connect_args=given)


def _break(proxy: FaultProxy, fault: str | None) -> None:
    """Do something to the COMMIT that comes next."""
    loop = asyncio.get_running_loop()
    if fault == "cut":
        proxy.cut(matching=_commits)
        return
    rule = proxy.hold("requests", matching=_commits)
    waiting = loop.create_task(rule.hit())
    if fault == "late":
        waiting.add_done_callback(lambda _: (proxy.reset(upstream=False), loop.call_later(LATE, proxy.heal)))
    else:
        waiting.add_done_callback(lambda _: proxy.reset())


def _commits(frame: bytes) -> bool:
    return b"COMMIT" in frame.upper()


async def _closed(connection: AsyncConnection) -> None:
    with suppress(*MISHAPS, TimeoutError):
        await connection.close()


class Ledger:
    """The same, as the round sees it.

    Args:
        run: executes a statement in a session of its own, and returns its rows.
    """

    def __init__(self, run: Callable[[str], list[tuple[Any, ...]]]) -> None:
        self._run = run

    def total(self) -> int:
        """The number."""
        return int(self._run("SELECT total FROM account")[0][0])

    def broken(self) -> list[str]:
        """What must not be: each writer has seen what the one before wrote, and nothing was done twice."""
        entries = self._run("SELECT fence, seen FROM entry ORDER BY fence, seen")
        wrong = [
            f"fence {fence} saw {seen} after {at} writes" for at, (fence, seen) in enumerate(entries) if seen != at
        ]
        if self.total() != len(entries):
            wrong.append(f"the account says {self.total()}, and {len(entries)} entries stay")
        twice = self._run("SELECT unit FROM entry GROUP BY unit HAVING count(*) > 1")
        wrong += [f"unit {unit} was done twice" for (unit,) in twice]
        return [f"fenced: {text}" for text in wrong[:3]]
