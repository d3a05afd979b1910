"""What only PostgreSQL has: isolation, encodings, parameters, standbys, updates in place."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from itertools import count
from typing import Any

import asyncpg
import psycopg
import pytest

from aiolock import BackendError, ConfigurationError, LockManager
from aiolock.backends.postgres import ear
from aiolock.backends.postgres.address import address_of
from aiolock.backends.postgres.loop import ResolvingLoop
from aiolock.backends.postgres.session import meaning
from aiolock.backends.resolver import Resolver
from aiolock.backends.transactional.channels import SHARED
from aiolock.backends.transactional.guess import NAMES
from tests.support.postgres import OwnServer

from .database import PostgresDatabase


async def test_a_database_that_is_serializable_by_default(database: PostgresDatabase) -> None:
    """Kept by dial(): `default_transaction_isolation`."""
    database.run(f"ALTER DATABASE {database.name} SET default_transaction_isolation = 'serializable'")
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        await database.pass_on(one, two)


async def test_another_level_of_isolation_is_refused(database: PostgresDatabase) -> None:
    """Another client could call the function in its own transaction. Kept by exchange_1."""
    async with LockManager(database.url):
        pass
    call = "SELECT aiolock.exchange_1(0, 0, 0, 0, NULL, NULL, NULL, NULL)"
    with pytest.raises(Exception, match="READ COMMITTED"):
        database.run(f"BEGIN ISOLATION LEVEL SERIALIZABLE; {call}; COMMIT")


async def test_updates_are_made_in_place(database: PostgresDatabase) -> None:
    """No index has what changes, and a page has room: so the table stays small. Kept by `fillfactor`."""
    async with LockManager(database.url) as locks:
        for _ in range(300):
            async with locks.lock("x"):
                pass
    for _ in range(500):
        ((updates, hot, size),) = database.run(
            "SELECT n_tup_upd, n_tup_hot_upd, pg_relation_size(relid) FROM pg_stat_user_tables WHERE relname = 'rows'"
        )
        if updates >= 590:
            break
        await asyncio.sleep(0.02)  # statistics come late
    assert hot >= 0.95 * updates >= 560
    assert size <= 100_000


async def test_nothing_is_idle_in_a_transaction(database: PostgresDatabase) -> None:
    """A client that is frozen or cut off holds up nobody."""
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        left = 60
        seen: set[str] = set()

        async def work(manager: LockManager) -> None:
            nonlocal left
            while left > 0:
                async with manager.lock("x"):
                    left -= 1

        async def look() -> None:
            link = await asyncpg.connect(database.url)
            while left > 0:
                rows = await link.fetch("SELECT state FROM pg_stat_activity WHERE datname = current_database()")
                seen.update(str(row[0]) for row in rows)
            await link.close()

        await asyncio.gather(look(), *(work(manager) for manager in (one, two) * 3))
    assert "idle" in seen
    assert not {state for state in seen if "in transaction" in state}


@pytest.mark.slow
async def test_channels_that_take_longer_than_an_answer(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manager that listens to thousands must come to an end. Kept by Ear._move, and Ear._turn."""
    claim = ear.Ear._claim

    async def slow(*args: Any) -> None:
        await asyncio.sleep(0.1)
        await claim(*args)

    monkeypatch.setattr(ear.Ear, "_claim", slow)
    hears = ear.Ear(address_of(database.url), 2.0, lambda *_: None, lambda _: None)
    try:
        for number in range(30):
            hears.channels.add(f"aiolock:manager:{number}")
        await asyncio.gather(*(hears.tune() for _ in range(5)))
        assert len(hears._tuned) == 30
    finally:
        hears.hang_up()


async def test_a_server_that_has_little_room() -> None:
    """All sessions of all databases share it: a manager asks for as much as there is. Kept by GuessingEngine._run, and
    meaning(): `full`.
    """
    with (
        contextlib.closing(OwnServer("-c", "max_locks_per_transaction=10", "-c", "max_connections=10")) as server,
        psycopg.connect(server.url, autocommit=True) as other,
    ):
        async with LockManager(server.url, ttl=6) as locks:
            leases = [await locks.lock(f"{number}").acquire() for number in range(NAMES)]
            with contextlib.suppress(psycopg.errors.OutOfMemory):
                for number in count():
                    other.execute("SELECT pg_advisory_lock(%s)", (number,))
            other.execute("SELECT pg_advisory_unlock(number) FROM generate_series(1, 150) AS number")
            engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
            async with asyncio.timeout(20):
                while engine._room >= 150:  # noqa: ASYNC110 - a renewal may have been on its way before
                    await asyncio.sleep(0.05)
                granted = time.monotonic() + max(lease.remaining() for lease in leases)
                while min(lease.remaining() for lease in leases) + time.monotonic() <= granted:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert not [lease for lease in leases if lease.lost]


def test_a_session_that_ends_while_it_is_opened() -> None:
    """What asyncpg says then says nothing to others. Kept by meaning()."""
    error = asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")
    found = meaning(address_of("postgresql://app@host/app"), error, 5.0, ran=False)
    assert "the connection was lost" in str(found.error)


async def test_a_connection_for_which_nobody_waits_any_more(caplog: pytest.LogCaptureFixture) -> None:
    """It may end with an error that nobody hears. Kept by ResolvingLoop.create_future."""
    ResolvingLoop(asyncio.get_running_loop(), Resolver()).create_future().set_exception(OSError("cut"))
    await asyncio.sleep(0)
    gc.collect()
    assert not caplog.messages


async def test_a_crash_forgets_a_release_at_most() -> None:
    """Who releases waits for no disk, and a crash costs the rest of a ttl; what is granted later brings
    it to the disk, and is never forgotten. Kept by exchange_1: `lazy`, and Plan.lazy.
    """
    held = "SELECT name FROM aiolock.locks ORDER BY name"
    with contextlib.closing(OwnServer("-c", "wal_writer_delay=10s")) as server:
        database = PostgresDatabase(server.url)
        async with LockManager(server.url, ttl=3, recheck=1) as locks:
            first = await locks.lock("first").acquire()
            await first.release()
            with server.away():
                pass
            assert database.run(held) == [("first",)]
            async with locks.lock("first").acquire(timeout=20) as again:
                assert again.fence > first.fence
            second = await locks.lock("second", ttl=60).acquire()
            with server.away():
                pass
            assert database.run(held) == [("second",)]
            async with locks.lock("first").acquire(timeout=20) as once_more:
                assert once_more.fence > again.fence
            assert not second.lost
            await second.release()


def test_a_sweep_of_a_large_table(database: PostgresDatabase) -> None:
    """It looks at a part. Kept by sweep_1: TABLESAMPLE."""
    database.equip()
    end = "CASE WHEN n % 100 = 0 THEN 1 ELSE 9e15 END"
    database.run(
        f"INSERT INTO aiolock.rows SELECT n::text, 'string', '\"\"', {end}, 1 FROM generate_series(1, 200000) AS n"
    )
    database.run("ANALYZE aiolock.rows")
    with database.connect() as link:
        (found,) = link.execute("SELECT aiolock.sweep_1()").fetchone()
        (seen,) = link.execute(
            "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relid = 'aiolock.rows'::regclass"
        ).fetchone()
    assert 20 < found < 1000
    assert 2000 < seen < 100_000


async def test_who_waits_for_thousands_of_names(database: PostgresDatabase) -> None:
    """It takes no more of what all share. Kept by channels.SHARED, and ear_of()."""
    taken = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = {}"
    here = "(SELECT oid FROM pg_database WHERE datname = current_database())"
    async with LockManager(database.url, recheck=60) as locks:
        waiters = [asyncio.create_task(locks.latch(f"{number}", 1).wait()) for number in range(300)]
        ear: Any = locks._runtime.backend._engine._ear  # type: ignore[attr-defined]
        async with asyncio.timeout(30):
            while len(list(ear.channels)) < 300 or ear._tuned != ear.channels.names:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        assert len(ear._tuned) <= SHARED + 1
        assert database.run(taken.format(here)) == [(1,)]
        for number in range(300):
            await locks.latch(f"{number}", 1).count_down()
        async with asyncio.timeout(30):
            await asyncio.gather(*waiters)


@pytest.mark.parametrize(
    ("parameter", "says"),
    [("connect_timeout=3", "connect_timeout.*asyncpg"), ("ssl=require", "sslmode"), ("client_encoding=x", "encoding")],
)
async def test_a_parameter_that_is_not_known(database: PostgresDatabase, parameter: str, says: str) -> None:
    """Waiting does not help. Kept by MISTAKEN, and HINTS."""
    with pytest.raises(ConfigurationError, match=says):
        async with LockManager(f"{database.url}&{parameter}"):
            pass


async def test_there_is_no_tls() -> None:
    """Kept by `meaning`."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(b"N")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BackendError, match="does it speak TLS, if sslmode asks for it"):
            await LockManager(f"postgresql://app@127.0.0.1:{port}/app?sslmode=require").open()


@pytest.mark.parametrize(("state", "hint"), [("28P01", "the password"), ("28000", "pg_hba"), ("3D000", "its name")])
def test_what_is_to_be_corrected(state: str, hint: str) -> None:
    """Kept by HINTS: the servers of tests let everybody in."""
    error = asyncpg.PostgresError.new({"C": state, "M": "no"})
    assert hint in str(meaning(address_of("postgresql://app@host/app"), error, 5.0, ran=False).error)


async def test_a_standby(database: PostgresDatabase) -> None:
    """It says so, and by which words to look for the primary. Kept by meaning()."""
    async with LockManager(database.url, request_timeout=2) as locks:
        refused = (
            "RAISE EXCEPTION USING ERRCODE = '25006', MESSAGE = 'cannot execute INSERT in a read-only transaction'"
        )
        database.run(f"CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {refused}; END$$")
        database.run("CREATE TRIGGER no BEFORE INSERT ON aiolock.rows FOR EACH STATEMENT EXECUTE FUNCTION no()")
        with pytest.raises(BackendError, match=r"read-only transaction.*primary"):
            await locks.lock("x").acquire(timeout=1)
    with pytest.raises(BackendError, match=r"there is no primary.*one,two"):
        async with LockManager(f"{database.url}&target_session_attrs=standby"):
            pass


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_of_another_encoding(database: PostgresDatabase, encoding: str) -> None:
    """A name that it has not would end all requests of its moment. Kept by dial()."""
    name = f"{database.name}_{encoding.lower()}"
    database.run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        with pytest.raises(ConfigurationError, match=f"{encoding}, .*UTF8"):
            async with LockManager(database.url.replace(database.name, name)):
                pass
    finally:
        database.run(f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_pooler_that_shares_sessions(database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session answers than the one that was opened. Kept by dial()."""
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda _: 1)
    with pytest.raises(ConfigurationError, match="pooler"):
        async with LockManager(database.url):
            pass
