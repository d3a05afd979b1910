"""Poolers that share sessions: refused, unless it is said where to listen, or nothing listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import quote

import pytest

from aiolock import ConfigurationError, LockManager, Poll
from aiolock.backends.postgres import engine
from aiolock.backends.postgres.address import address_of
from aiolock.backends.postgres.reader import DatabaseReader
from aiolock.backends.survey import Survey
from tests.support.pooler import PGBOUNCER, fickle, pgbouncer, socket_folder

from ..database import exchanges
from .database import PostgresDatabase

WITHOUT = pytest.mark.skipif(PGBOUNCER is None, reason="no pgbouncer: AIOLOCK_TEST_PGBOUNCER names one")
KINDS = [
    "refusing",
    "forgetful",
    pytest.param("transaction", marks=WITHOUT),
    pytest.param("session", marks=WITHOUT),
]


@pytest.fixture(params=KINDS)
async def pooler(request: pytest.FixtureRequest, database: PostgresDatabase) -> AsyncIterator[str]:
    """Its address for the database."""
    at = pooling(request.param, database)
    async with at as url:
        yield url


@asynccontextmanager
async def pooling(kind: str, database: PostgresDatabase) -> AsyncIterator[str]:
    if kind in ("transaction", "session"):
        async with pgbouncer(database.url, kind) as url:
            yield url
    else:
        async with fickle(database.url, kind == "refusing") as url:
            yield url


async def test_it_is_told_apart(pooler: str) -> None:
    """Its sessions hear nothing. Kept by dial()."""
    with pytest.raises(ConfigurationError, match=r"is a pooler.* listen=host:port .*Poll"):
        await LockManager(pooler).open()


async def test_it_is_told_where_to_listen(database: PostgresDatabase, pooler: str) -> None:
    """What asks goes through the pooler, and what listens does not. Kept by Address.listen."""
    url = f"{pooler}?listen={quote(socket_folder(database.url))}"
    async with LockManager(url) as one, LockManager(url) as two:
        for _ in range(5):  # in each of its sessions
            lease = await one.lock("x").acquire()
            waiter = asyncio.create_task(two.lock("x").acquire())
            await database.until_waiting("x")
            before = exchanges(two)[0]
            await lease.release()
            following = await asyncio.wait_for(waiter, 10)
            assert following.fence > lease.fence
            assert exchanges(two)[0] - before <= 3  # it was told
            leases = await asyncio.gather(*(one.lock(f"{at}").acquire() for at in range(5)))
            await following.release()
            await asyncio.gather(*(each.release() for each in leases))


@pytest.mark.parametrize("kind", ["forgetful", pytest.param("transaction", marks=WITHOUT)])
async def test_more_managers_than_sessions(
    database: PostgresDatabase, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A statement takes two round trips, and the pooler keeps the session for both: nothing is lost, and asked again.
    Kept by _connect(): `statement_cache_size`.
    """
    async with pooling(kind, database) as pooler, AsyncExitStack() as stack:
        url = f"{pooler}?listen={quote(socket_folder(database.url))}"
        managers = [await stack.enter_async_context(LockManager(url)) for _ in range(8)]

        async def work(at: int, locks: LockManager) -> list[int]:
            fences = []
            for _ in range(8):
                for name in (f"own:{at}", f"shared:{at % 4}"):
                    async with locks.lock(name).acquire(timeout=60) as lease:
                        fences.append(lease.fence)
            return fences

        seen = await asyncio.gather(*(work(at, locks) for at, locks in enumerate(managers)))
        assert all(len(fences) == len(set(fences)) == 16 for fences in seen)
        assert caplog.messages == []


async def test_nothing_listens(database: PostgresDatabase, pooler: str) -> None:
    async with LockManager(pooler, waiting=Poll()) as one, LockManager(database.url) as two:
        lease = await two.lock("x").acquire()
        waiter = asyncio.create_task(one.lock("x").acquire())
        await database.until_waiting("x")
        await lease.release()
        await (await asyncio.wait_for(waiter, 10)).release()


async def test_who_only_looks(database: PostgresDatabase, pooler: str) -> None:
    """The command line may be given the same address. Kept by DatabaseReader."""
    async with LockManager(database.url) as locks, locks.lock("x"), Survey(pooler) as survey:
        reader = survey.masters[0]
        assert isinstance(reader, DatabaseReader)
        assert await reader.fetch("SELECT name FROM aiolock.locks") == [["x"]]
        assert reader.pooled


async def test_it_listens_elsewhere(database: PostgresDatabase, pooler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hear nothing. Kept by PostgresEngine.open."""
    url = f"{pooler}?listen={quote(socket_folder(database.url))}"
    elsewhere = address_of(database.url.replace(database.name, "postgres"))
    asked = address_of(url)._replace(listen=elsewhere)
    monkeypatch.setattr(engine, "address_of", lambda _: asked)
    with pytest.raises(ConfigurationError, match=r"listen= says, .*/postgres, are not the same database"):
        await LockManager(url).open()


@pytest.mark.parametrize(
    ("url", "asked", "heard"),
    [
        ("postgresql://u:p@h:6432/d?listen=s:5433", "postgresql://u:p@h:6432/d", "postgresql://u:p@s:5433/d"),
        ("postgresql://u@h/d?listen=s,t&ssl=x", "postgresql://u@h/d?ssl=x", "postgresql://u@s,t/d?ssl=x"),
        ("postgresql://h/d?ssl=x&listen=/run", "postgresql://h/d?ssl=x", "postgresql:///d?ssl=x&host=/run"),
    ],
)
def test_addresses(url: str, asked: str, heard: str) -> None:
    """Only the host differs."""
    address = address_of(url)
    assert address.settings() == {"dsn": asked}
    assert address.listen is not None
    assert address.listen.settings() == {"dsn": heard}
