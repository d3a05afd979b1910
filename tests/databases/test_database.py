"""What a database must allow, and what it keeps: rights, sessions, messages, odd rows, sweeps."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from pathlib import Path
from typing import Any

import pytest

from aiolock import AcquireTimeout, BackendError, ConfigurationError, Lease, LockLost, LockManager
from aiolock.backends.transactional import served

from .database import PATIENT, Database, exchanges


async def test_a_user_with_the_least_rights(database: Database) -> None:
    """It may call what we have made, and touch no table. Without that right it is told whose work to ask for, and who
    may do it.
    """
    stranger = database.user(allowed=False)
    with pytest.raises(
        ConfigurationError, match=f"let the owner of the database run {re.escape(str(database.schema))}"
    ):
        await LockManager(stranger).open()
    database.equip()
    with pytest.raises(ConfigurationError, match=r"denied.*grants"):
        await LockManager(stranger).open()
    theirs = database.user()
    async with LockManager(theirs, **PATIENT) as one, LockManager(database.user(), **PATIENT) as two:
        await database.pass_on(one, two)
    database.run(database.sweep, url=theirs)
    with pytest.raises(database.errors, match="denied"):
        database.run(f"DELETE FROM {database.rows}", url=theirs)


async def test_several_begin_with_an_empty_database(database: Database) -> None:
    """Kept by `equip` of each engine, which has a turn of its own."""
    managers = [LockManager(database.url) for _ in range(4)]
    await asyncio.gather(*(manager.open() for manager in managers))
    for manager in managers:
        async with manager.lock("x"):
            pass
        await manager.aclose()


async def test_what_is_there_is_made_again_without_a_word(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """Two processes that start at once both make it. Kept by schema.sql: `EXISTS` (and `sql_notes`)."""
    one = database.engines(database.url, pushes=False)
    await one.open(lambda *_: None)
    session = await one.dial()
    await one.equip(session)
    await session.close()
    await one.aclose()
    assert caplog.records == []


def test_the_schema_is_in_the_package(product: type[Database]) -> None:
    assert Path(str(product.schema)).is_file()


async def test_there_is_no_such_database(database: Database) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere.*: make this database, or correct its name"):
        await LockManager(database.url.replace(database.name, "nowhere")).open()


# Sessions.


async def test_nothing_is_open_in_a_transaction(database: Database) -> None:
    """Also while a lock is held and waited for: a client that is frozen or cut off holds up nobody."""
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        await database.until_waiting("x")
        async with asyncio.timeout(10):  # what InnoDB says of transactions is up to 0.1 s old
            while await asyncio.to_thread(database.run, database.idle) != [(0,)]:
                pass
        await lease.release()
        await (await waiter).release()


async def test_sessions_end(database: Database) -> None:
    """Leases live, waiters go on waiting, and are woken. Kept by Ear.keep, and ServedEngine.exchange: `over`."""
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        await database.until_waiting("x")
        for _ in range(3):
            assert await asyncio.to_thread(database.end_sessions)
            await one.lock("y").acquire(timeout=5)
        assert not lease.lost
        assert not waiter.done()
        await lease.release()
        await (await asyncio.wait_for(waiter, 10)).release()


async def test_no_session_is_left(database: Database) -> None:
    """Kept by HINTS."""
    database.equip()
    theirs = database.user(sessions=1)
    with pytest.raises(BackendError, match=r"(too many connections|max_user_connections).*Poll.*max_connections"):
        await LockManager(theirs).open()


# Messages.


async def test_a_message_that_is_too_long(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL sends 8000 bytes at most: then the rows do not come with it. Kept by GuessingEngine.message."""
    async with LockManager(database.url, **PATIENT) as one, LockManager(database.url, **PATIENT) as two:
        await database.pass_on(one, two)  # kept by Ear._claim, too
        await database.pass_on(one, two, metadata="ä" * 2000)
        monkeypatch.setattr(database.module("engine"), "SENT", 200)
        await database.pass_on(one, two)


async def test_a_message_that_is_sent_while_nobody_listens(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever listens again asks what happened meanwhile. Kept by Ear._tune: `again`."""
    async with LockManager(database.url, ttl=300) as one, LockManager(database.url, **PATIENT) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        await database.until_waiting("x")
        released = asyncio.Event()
        ear = database.module("ear")
        dial = ear.dial

        async def later(*where: Any) -> Any:
            await released.wait()
            return await dial(*where)

        monkeypatch.setattr(ear, "dial", later)
        ears = database.ears()
        assert len(ears) == 2
        for session in ears:
            database.end(session)
        async with asyncio.timeout(10):
            while set(database.sessions()) & set(ears):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.005)
        await lease.release()
        released.set()
        await (await asyncio.wait_for(waiter, 20)).release()


# Rows.


async def test_names_of_all_characters(url: str) -> None:
    """SQL has no NUL, and may compare as it likes. Kept by kept(), and the collation of the keys."""
    names = ["a\0b", "a%00b", "a%2500b", "a b ", "a b", "ä€😀'\"\\", "{a}:b", "A", "a", "á"]
    async with LockManager(url) as locks, LockManager(url) as others:
        leases = [await asyncio.wait_for(locks.lock(name, metadata=name).acquire(), 5) for name in names]
        for name, lease in zip(names, leases, strict=True):
            info = await others.lock(name).info()
            assert info is not None
            assert info.metadata == name
            await lease.release()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("hash", "[1]"),
        ("hash", '{"owner": 1}'),
        ("hash", '{"owner": "x", "fence": "1", "expires": "soon"}'),
        ("zset", '{"a": 1e999}'),
        ("string", "{}"),
        pytest.param("string", "9" * 5000, id="a number that is too long"),
        pytest.param("string", "[" * 3000 + "]" * 3000, id="a list that is too deep"),
    ],
)
async def test_a_damaged_row(database: Database, kind: str, value: str) -> None:
    """Whoever needs it is told its name; the others of the same moment, nothing. Kept by Row.of_json."""
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        lease = await one.lock("x").acquire()
        of_lock = f"{database.key} = 'aiolock:lock:{{x}}'"
        database.run(f"UPDATE {database.rows} SET kind = %s, value = %s WHERE {of_lock}", kind, value)
        damaged, fine = await asyncio.gather(
            two.lock("x").acquire(timeout=5), two.lock("y").acquire(timeout=5), return_exceptions=True
        )
        assert isinstance(damaged, BackendError)
        assert re.search(r"aiolock:lock:{x}.*delete it|this lock already holds another type", str(damaged))
        assert isinstance(fine, Lease)
        database.run(f"DELETE FROM {database.rows} WHERE {of_lock}")
        with contextlib.suppress(LockLost):
            await lease.release()
        async with two.lock("x").acquire(timeout=5):
            pass


@pytest.mark.parametrize("damage", ["kind = '!'", "kind = ''", "version = 0", "version = -1"])
async def test_what_no_row_is(database: Database, damage: str) -> None:
    """With version 0 a held lock would look like a free one. Kept by the CHECKs of the table."""
    async with LockManager(database.url) as locks, locks.lock("x"):
        with pytest.raises(database.errors, match=r"CONSTRAINT|constraint"):
            database.run(f"UPDATE {database.rows} SET {damage}")


async def test_who_looks_sees_the_locks(database: Database) -> None:
    """One row that SQL cannot read must not hide all others. Kept by the view: what it does with NUL, and its CASE."""
    look = f"SELECT name, fence, expires > now() FROM {database.locks} ORDER BY name"
    async with LockManager(database.url) as locks:
        async with locks.lock("free"):
            pass
        odd = [await locks.lock(name, metadata="\0 \\\0 \\u0000 \\").acquire() for name in ("a", "b\0", "c", "d")]
        damage = f"UPDATE {database.rows} SET value = %s WHERE {database.key} LIKE %s"
        database.run(damage, '{"owner": "x", "expires": "soon"}', "%{c}")
        database.run(damage, database.nothing, "%{d}")
        assert database.run(look) == [
            ("a", str(odd[0].fence), True),
            ("b%00", str(odd[1].fence), True),
            ("c", None, None),
        ]
        database.run(
            f"DELETE FROM {database.rows} WHERE {database.key} LIKE %s OR {database.key} LIKE %s", "%{c}", "%{d}"
        )


async def test_what_managers_have_made_is_gone(database: Database) -> None:
    """One that runs makes it again, as a new one would. Kept by ServedEngine._connect."""
    async with LockManager(database.url) as locks:
        async with locks.lock("x"):
            pass
        database.run(database.undo)
        async with locks.lock("x").acquire(timeout=10):
            pass


# Sweeps.


@pytest.mark.parametrize("fault", ["fails", "takes long", "ends its session"])
async def test_a_sweep_that_fails(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """What was done before it counts as done; a log says why it failed. Kept by ServedEngine._sweep."""
    monkeypatch.setattr(served, "SWEEP", 1)
    async with LockManager(database.url, request_timeout=1.0) as locks, LockManager(database.url) as others:
        database.break_sweep(fault)
        async with locks.lock("x").acquire(timeout=5):
            assert exchanges(locks)[0] == 2  # it has asked for the time first
            with pytest.raises(AcquireTimeout):
                await others.lock("x").acquire(timeout=0)
        async with asyncio.timeout(10):
            while not (said := [text for text in caplog.messages if "could not be deleted" in text]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert re.fullmatch(rf"rows that have expired could not be deleted: .*/{database.name}: .{{10,}}", said[0], re.S)


async def test_what_has_expired_is_deleted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may ask for that name again. Kept by ServedEngine._sweep."""
    monkeypatch.setattr(served, "SWEEP", 1)
    async with LockManager(database.url) as locks:
        database.run(
            f"INSERT INTO {database.rows} VALUES('old', 'string', '\"\"', 1, 1), ('new', 'string', '\"\"', 9e15, 1)"
        )
        lease = await locks.lock("x").acquire()
        found = f"SELECT 1 FROM {database.rows} WHERE {database.key} "
        async with asyncio.timeout(10):
            while database.run(f"{found} = 'old'"):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        assert len(database.run(f"{found} IN ('new', 'aiolock:lock:{{x}}')")) == 2
        await lease.release()


def test_a_sweep_waits_for_nobody(database: Database) -> None:
    """Kept by SKIP LOCKED."""
    database.equip()
    database.run(f"INSERT INTO {database.rows} VALUES('a', 'string', '\"\"', 1, 1), ('b', 'string', '\"\"', 1, 1)")
    with contextlib.closing(database.connect()) as link, contextlib.closing(link.cursor()) as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT * FROM {database.rows} WHERE {database.key} = 'a' FOR UPDATE")
        database.run(database.sweep)
    assert database.run(f"SELECT version FROM {database.rows}") == [(1,)]


def test_one_sweeps_at_a_time(database: Database) -> None:
    """Each looks at thousands of rows, and all managers do. Kept by sweep_1: its lock."""
    database.equip()
    with contextlib.closing(database.connect()) as link, contextlib.closing(link.cursor()) as cursor:
        if database.holds_in:
            cursor.execute("BEGIN")  # in MariaDB and MySQL it is the session's
        cursor.execute(database.sweep)
        database.run(f"INSERT INTO {database.rows} VALUES('a', 'string', '\"\"', 1, 1)")
        database.run(database.sweep)
        assert database.run(f"SELECT version FROM {database.rows}") == [(1,)]
    for _ in range(500):
        database.run(database.sweep)
        if not database.run(f"SELECT 1 FROM {database.rows}"):
            return
        time.sleep(0.01)  # until the server notices that the session has ended
    pytest.fail("nothing is deleted")
