"""What only MariaDB and MySQL have: procedures and gates, isolation, characters, the bell of who listens."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pymysql
import pytest

from aiolock import BackendError, ConfigurationError, LockManager
from aiolock.backends.mysql import ear, engine
from aiolock.backends.mysql.address import address_of
from aiolock.backends.mysql.engine import GATES, MySQLEngine
from aiolock.backends.mysql.session import SCHEMA, Session, meaning
from aiolock.backends.transactional import guess
from aiolock.backends.transactional.plan import Plan, Stale
from tests.support.mysql_side import equip

from .. import test_database as shared
from ..database import PATIENT, exchanges
from .database import MySQLDatabase


def looks_often(manager: LockManager) -> bool:
    """Whether it has given up that senders end its waiting."""
    engine: Any = manager._runtime.backend._engine  # type: ignore[attr-defined]
    return bool(engine._ear._look)


@pytest.mark.parametrize("grants", [(), ("SELECT, INSERT, CREATE",)])
async def test_a_database_without_procedures_that_may_not_be_made(
    database: MySQLDatabase, grants: tuple[str, ...]
) -> None:
    """Kept by WITHOUT_SCHEMA, and MISTAKEN."""
    hint = f"let the owner of the database run {re.escape(str(SCHEMA))}" if grants else "denied"
    with pytest.raises(ConfigurationError, match=hint):
        await LockManager(database.user_with(*grants)).open()


async def test_another_password(database: MySQLDatabase) -> None:
    """It is no use to try again. Kept by MISTAKEN."""
    with pytest.raises(ConfigurationError, match=r"Access denied.*: correct the user and the password"):
        await LockManager(database.url.replace("root", "root:wrong")).open()


async def test_users_wake_each_other(database: MySQLDatabase) -> None:
    """KILL asks who the other is: both are the procedures' owner while they wait and send, who has no other right to
    that. Kept by SQL SECURITY DEFINER, and KILL QUERY.
    """
    database.equip(database.user_with("ALL PRIVILEGES"))
    one_of, other = database.user(), database.user()
    async with LockManager(one_of, **PATIENT) as one, LockManager(other, **PATIENT) as two:
        ears = [manager._runtime.backend._engine._ear._session for manager in (one, two)]  # type: ignore[attr-defined]
        await database.pass_on(one, two)
        await database.pass_on(two, one)
        assert not looks_often(one)
        assert not looks_often(two)
        assert not [session for session in ears if session.over]


async def test_nobody_may_end_statements(database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who listens looks often after it has missed a message. Kept by Ear._next_look."""
    monkeypatch.setattr(ear, "SIGN_OF_LIFE", 1)
    database.equip()
    ((_, _, text, *_),) = database.run("SHOW CREATE PROCEDURE aiolock_exchange_1")
    database.run("DROP PROCEDURE aiolock_exchange_1")
    denied = text.replace("KILL QUERY target", "SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1095")
    assert denied != text
    database.run(denied)
    async with LockManager(database.url, **PATIENT) as one, LockManager(database.url, **PATIENT) as two:
        await database.pass_on(one, two)
        assert looks_often(two)
        await database.pass_on(one, two)


@pytest.mark.parametrize("level", ["REPEATABLE-READ", "SERIALIZABLE"])
async def test_an_isolation_of_the_session(
    database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """Kept by aiolock_exchange_1: it sets its own."""
    run = Session.run

    async def otherwise(self: Session, statement: str) -> None:
        await run(self, statement)
        if statement.startswith("SET SESSION"):
            await run(self, f"SET SESSION TRANSACTION ISOLATION LEVEL {level.replace('-', ' ')}")

    monkeypatch.setattr(Session, "run", otherwise)
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        await database.pass_on(one, two)


def test_the_transaction_of_another_is_refused(database: MySQLDatabase) -> None:
    """What it commits or rolls back is not ours. Kept by aiolock_exchange_1: SET TRANSACTION."""
    database.equip()
    database.run("CREATE TABLE t(n INT)")
    with database.connect() as link, link.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES(1)")
        with pytest.raises(pymysql.Error, match="in progress"):
            cursor.execute("CALL aiolock_exchange_1(0, 0, 0, 0, NULL, NULL, NULL, NULL)")
        cursor.execute("COMMIT")
    assert database.run("SELECT * FROM t") == [(1,)]


async def test_the_time_is_that_after_the_gates(database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has waited for a gate for long has decided on an old time. A statement of a procedure has a NOW() of its
    own. Kept by aiolock_exchange_1: `now_us`.
    """
    monkeypatch.setattr(guess, "LAG_US", 200_000)
    async with LockManager(database.url) as locks:
        async with locks.lock("x"):
            pass
        _, stale = exchanges(locks)
        with database.connect() as link, link.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT * FROM aiolock_gates FOR UPDATE")
            waiter = asyncio.create_task(locks.lock("x").acquire())
            await asyncio.sleep(1.0)
            assert not waiter.done()
            cursor.execute("COMMIT")
        lease = await waiter
        assert exchanges(locks)[1] == stale + 1
        await lease.release()


async def test_gates_that_are_gone(database: MySQLDatabase) -> None:
    """Without its gate a name is not safe. Kept by aiolock_exchange_1: `gates`."""
    async with LockManager(database.url) as locks:
        assert database.run("SELECT COUNT(*) FROM aiolock_gates") == [(GATES,)]
        database.run("DELETE FROM aiolock_gates")
        with pytest.raises(BackendError, match=r"aiolock_gates lacks rows: run schema.sql again"):
            await locks.lock("x").acquire(timeout=0)


@pytest.mark.parametrize("parameter", ["ssl=true", "ssl_ca=/etc/ssl/certs/ca-certificates.crt"])
async def test_a_server_without_tls(database: MySQLDatabase, parameter: str) -> None:
    """It is refused, and nothing goes in the clear. Kept by dial(): `ssl`."""
    with pytest.raises(BackendError, match="does it speak TLS, as the URL says"):
        async with LockManager(f"{database.url}?{parameter}"):
            pass


@pytest.mark.parametrize("characters", ["utf8mb4", "latin1", "utf16"])
async def test_a_database_of_other_characters(database: MySQLDatabase, characters: str) -> None:
    """Kept by the schema: each column names its own."""
    database.run(f"ALTER DATABASE {database.name} CHARACTER SET {characters}")
    await shared.test_names_of_all_characters(database.url)


async def test_a_row_that_is_no_json(database: MySQLDatabase) -> None:
    """PostgreSQL takes none. Kept by Row.of_json."""
    await shared.test_a_damaged_row(database, "hash", "nothing")


async def test_who_listened_is_forgotten(database: MySQLDatabase) -> None:
    """Kept by aiolock_sweep_1."""
    async with LockManager(database.url):
        database.run("INSERT INTO aiolock_ears VALUES('c', 'nobody')")
        database.run("INSERT INTO aiolock_messages(ear, channel, message) VALUES('nobody', 'c', '')")
        database.run("CALL aiolock_sweep_1()")
        assert database.run("SELECT 1 FROM aiolock_messages") == []
        assert len(database.run("SELECT DISTINCT ear FROM aiolock_ears")) == 1  # the manager's


async def test_a_replica(database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept by aiolock_exchange_1: `read_only`, which binds not even those with all rights; and by dial()."""
    ask = Session.ask
    database.equip()
    ((_, _, text, *_),) = database.run("SHOW CREATE PROCEDURE aiolock_exchange_1")
    database.run("DROP PROCEDURE aiolock_exchange_1")
    database.run(text.replace("@@GLOBAL.read_only", "1"))  # the server is everybody's
    async with LockManager(database.url, request_timeout=2) as locks:
        with pytest.raises(BackendError, match=r"read-only.*primary"):
            await locks.lock("x").acquire(timeout=0.5)

    async def otherwise(self: Session, statement: str, *values: object) -> Any:
        return [("read_only", "ON")] if statement.startswith("SHOW") else await ask(self, statement, *values)

    monkeypatch.setattr(Session, "ask", otherwise)
    with pytest.raises(BackendError, match=r"read-only.*primary"):
        async with LockManager(database.url):
            pass


@pytest.mark.parametrize("variable", [("wsrep_on", "ON"), ("group_replication_single_primary_mode", "OFF")])
async def test_several_servers_that_take_writes(
    database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]
) -> None:
    """Kept by dial()."""
    ask = Session.ask

    async def otherwise(self: Session, statement: str, *values: object) -> Any:
        return [variable] if statement.startswith("SHOW") else await ask(self, statement, *values)

    monkeypatch.setattr(Session, "ask", otherwise)
    with pytest.raises(ConfigurationError, match="several servers take writes"):
        async with LockManager(database.url):
            pass


async def test_a_pooler_that_shares_sessions(database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session answers than the one that was opened. Kept by dial()."""
    ask = Session.ask

    async def otherwise(self: Session, statement: str, *values: object) -> Any:
        return [(1, 1)] if "CONNECTION_ID" in statement else await ask(self, statement, *values)

    monkeypatch.setattr(Session, "ask", otherwise)
    with pytest.raises(ConfigurationError, match="pooler"):
        async with LockManager(database.url):
            pass


async def test_another_kind_of_server() -> None:
    """It waits for the client to begin, or says something else, and ends the connection. Kept by meaning(): LOST."""

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BackendError, match="is it MariaDB or MySQL"):
            await LockManager(f"mysql://app@127.0.0.1:{port}/app").open()


def test_a_user_whom_only_cryptography_can_prove() -> None:
    """As those of MySQL 8 are, without TLS: it is no use to try again."""
    missing = RuntimeError("'cryptography' package is required for caching_sha2_password auth methods")
    found = meaning(address_of("mysql://h/db"), missing, 5.0, ran=False)
    assert isinstance(found.error, ConfigurationError)
    assert "'cryptography' package is required" in str(found.error)


async def test_a_session_that_the_server_has_not_missed(
    database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the network was cut for long, the old one still has its bell. Kept by MySQLEngine._connect: a new one."""
    monkeypatch.setattr(Session, "end", lambda _: None)
    async with LockManager(database.url, **PATIENT) as one, LockManager(database.url, **PATIENT) as two:
        made: Any = two._runtime.backend._engine  # type: ignore[attr-defined]
        old = made._session
        made._session = None
        await database.pass_on(one, two)
        await old.close()
        await database.pass_on(one, two)
        assert not looks_often(two)


async def test_the_bell_is_held_before_it_is_waited_for(
    database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for it would have it, if only for a moment. Kept by MySQLEngine._connect: its last line."""
    ask, seen = Session.ask, []

    async def looking(self: Session, statement: str, *values: object) -> Any:
        if statement == engine.TURN and str(values[0]).startswith("aiolock bell"):
            seen.append(made._bell == values[0])
        return await ask(self, statement, *values)

    monkeypatch.setattr(Session, "ask", looking)
    made = engine.MySQLEngine(database.url)
    await made.open(lambda *_: None)
    await made.aclose()
    assert seen == [False]


@pytest.mark.slow
async def test_the_session_that_holds_the_bell_has_ended(
    database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may notice for long: who listens asks now and then. Kept by Ear._next_look: `held`."""
    ask, asked = Session.ask, 0

    async def counted(self: Session, statement: str, *values: object) -> Any:
        nonlocal asked
        asked += statement == ear.HEAR
        return await ask(self, statement, *values)

    async with LockManager(database.url, **PATIENT) as one, LockManager(database.url, **PATIENT) as two:
        await database.pass_on(one, two)
        monkeypatch.setattr(Session, "ask", counted)
        ((number,),) = database.run("SELECT IS_USED_LOCK(%s)", two._runtime.backend._engine._bell)  # type: ignore[attr-defined]
        database.run(f"KILL {number}")
        await asyncio.sleep(3.0)
        assert 2 < asked < 20
        assert looks_often(two)
        async with two.lock("y"):  # it notices
            pass
        async with asyncio.timeout(10):
            while looks_often(two):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        await database.pass_on(one, two)
        assert not looks_often(two)


async def test_a_host_that_is_gone_hears_nothing(database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept by Ear: SILENT."""
    monkeypatch.setattr(ear, "SILENT", 1)
    hears = ear.Ear(address_of(database.url), 5.0, *[lambda *_: None] * 3, str)  # type: ignore[arg-type]
    database.equip()
    hears.channels.add("aiolock:manager:m")
    await hears.tune()  # and nothing more
    heard = "SELECT COUNT(IS_USED_LOCK(CONCAT('aiolock ear ', ear))) FROM aiolock_ears"
    assert database.run(heard) == [(1,)]
    async with asyncio.timeout(10):
        while database.run(heard) != [(0,)]:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.05)
    hears.hang_up()


@pytest.mark.slow
async def test_who_waits_asks_nothing(database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for a heartbeat now and then. Kept by aiolock_hear_1, which waits in the server."""
    ask, asked = Session.ask, []

    async def counted(self: Session, statement: str, *values: object) -> Any:
        asked.append(statement)
        return await ask(self, statement, *values)

    async with LockManager(database.url, **PATIENT) as one, LockManager(database.url, **PATIENT) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        await database.until_waiting("x")
        await asyncio.sleep(0.3)  # it listens before it waits
        monkeypatch.setattr(Session, "ask", counted)
        await asyncio.sleep(2.0)
        assert len(asked) <= 2  # each listens again after five seconds
        await lease.release()
        await (await asyncio.wait_for(waiter, 10)).release()


async def test_a_turn_that_ends_at_once(database: MySQLDatabase) -> None:
    """Who came while it lasted is told so, also if it is over before the answer. Kept by exchange_1: `crowds`."""
    over = (
        "    COMMIT;\n  END;\n  WHILE",
        "    COMMIT;\n  UPDATE aiolock_gates SET manager = 0, tag = 0;\n  END;\n  WHILE",
    )
    with database.connect() as link:
        equip(link, lambda text: text.replace(*over, 1))
    one = MySQLEngine(database.url, pushes=False)
    await one.open(lambda *_: None)
    plan = Plan([], ["aiolocka"])
    plan.keys["aiolock:lock:{a}"] = 0
    (tag,) = plan.tags
    now_us = (await one.exchange([], 0, 0, 1, 0)).now_us
    turn = "UPDATE aiolock_gates SET tag = %s, manager = 7, until_us = %s, crowd = 4 WHERE gate = %s"
    database.run(turn, tag, now_us + 900_000, tag % GATES)
    verdict = await one.exchange([plan], now_us, 10**9, 2, 0)
    assert verdict.stale == {0: Stale({}, crowd=5)}
    await one.aclose()
