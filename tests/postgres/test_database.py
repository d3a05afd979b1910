"""What a database must allow, and what it costs: rights, isolation, sessions, updates in place."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from aiolock import AcquireTimeout, BackendError, ConfigurationError, Lease, LockLost, LockManager
from aiolock.backends.postgres import ear, engine
from aiolock.backends.postgres.address import address_of
from aiolock.backends.postgres.session import SCHEMA, Session, dial
from aiolock.backends.transactional import served

from .conftest import Database

GRANTS = "GRANT USAGE ON SCHEMA aiolock TO {0}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA aiolock TO {0}"


def exchanges(manager: LockManager) -> tuple[int, int]:
    """How often the server was asked; how many plans came too late."""
    engine: Any = manager._runtime.backend._engine  # type: ignore[attr-defined]
    return engine.exchanges, engine.stale


async def until_one_waits(database: Database, name: str) -> None:
    """Return once a process is in the queue of the lock."""
    query = "SELECT 1 FROM aiolock.rows WHERE key = %s"
    async with asyncio.timeout(10):
        while not database.run(query, f"aiolock:lock:{{{name}}}:queue"):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)


async def pass_on(database: Database, one: LockManager, two: LockManager, **options: Any) -> None:
    """One holds a lock, the other waits for it and gets it."""
    lease = await one.lock("x", **options).acquire()
    waiter = asyncio.create_task(two.lock("x", **options).acquire())
    await until_one_waits(database, "x")
    await lease.release()
    await (await asyncio.wait_for(waiter, 10)).release()


async def test_a_role_with_the_least_rights(database: Database) -> None:
    """It may call the functions, and touch no table. Without them it is told whose work to ask for."""
    role = f"app_{database.name}"
    database.run(f"CREATE ROLE {role} LOGIN")
    theirs = database.url.replace("postgres:@", f"{role}:@")
    try:
        with pytest.raises(ConfigurationError, match=re.escape(str(SCHEMA))):
            async with LockManager(theirs):
                pass
        database.run(SCHEMA.read_text(encoding="utf-8"))
        with pytest.raises(ConfigurationError, match=r"permission denied.*grants"):
            async with LockManager(theirs):
                pass
        database.run(GRANTS.format(role))
        async with LockManager(theirs) as one, LockManager(theirs) as two:
            await pass_on(database, one, two)
        database.run("SELECT aiolock.sweep_1()", where=theirs)
        with pytest.raises(Exception, match="permission denied"):
            database.run("DELETE FROM aiolock.rows", where=theirs)
    finally:
        database.run(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_database_that_is_serializable_by_default(database: Database) -> None:
    """Kept by dial(): `default_transaction_isolation`."""
    database.run(f"ALTER DATABASE {database.name} SET default_transaction_isolation = 'serializable'")
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        await pass_on(database, one, two)


async def test_another_level_of_isolation_is_refused(database: Database) -> None:
    """Another client could call the function in its own transaction. Kept by exchange_1."""
    async with LockManager(database.url):
        pass
    call = "SELECT aiolock.exchange_1(0, 0, 0, 0, NULL, NULL, NULL, NULL)"
    with pytest.raises(Exception, match="READ COMMITTED"):
        database.run(f"BEGIN ISOLATION LEVEL SERIALIZABLE; {call}; COMMIT")


async def test_updates_are_made_in_place(database: Database) -> None:
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


async def test_nothing_is_idle_in_a_transaction(database: Database) -> None:
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


async def test_sessions_end(database: Database) -> None:
    """Leases live, waiters go on waiting, and are woken. Kept by Ear.keep, and ServedEngine.exchange: `over`."""
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        await until_one_waits(database, "x")
        for _ in range(3):
            assert await asyncio.to_thread(database.end_sessions)
            await one.lock("y").acquire(timeout=5)
        assert not lease.lost
        assert not waiter.done()
        await lease.release()
        await (await asyncio.wait_for(waiter, 10)).release()


async def test_channels_that_take_longer_than_an_answer(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager that listens to thousands must come to an end. Kept by Ear._move, and Ear._turn."""
    claim = ear.Ear._claim

    async def slow(*args: Any) -> None:
        await asyncio.sleep(0.1)
        await claim(*args)

    monkeypatch.setattr(ear.Ear, "_claim", slow)
    hears = ear.Ear(address_of(database.url), 2.0, lambda *_: None)
    try:
        for number in range(30):
            hears.add(f"aiolock:latch:{{{number}}}:free")
        await asyncio.gather(*(hears.tune() for _ in range(5)))
        assert len(hears._tuned) == 30
    finally:
        hears.hang_up()


async def test_names_of_all_characters(url: str) -> None:
    """PostgreSQL has no NUL. Kept by kept()."""
    names = ["a\0b", "a%00b", "a%2500b", "a b ", "a b", "ä€😀'\"\\", "{a}:b"]
    async with LockManager(url) as locks, LockManager(url) as others:
        leases = [await asyncio.wait_for(locks.lock(name, metadata=name).acquire(), 5) for name in names]
        for name, lease in zip(names, leases, strict=True):
            info = await others.lock(name).info()
            assert info is not None
            assert info.metadata == name
            await lease.release()


async def test_a_message_that_is_too_long(database: Database) -> None:
    """PostgreSQL sends 8000 bytes at most: then the rows do not come with it. Kept by GuessingEngine.message."""
    with_patience: Any = {"ttl": 300, "liveness": 300, "recheck": 300}  # nobody asks by himself
    async with LockManager(database.url, **with_patience) as one, LockManager(database.url, **with_patience) as two:
        await pass_on(database, one, two)  # kept by Ear._claim, too
        await pass_on(database, one, two, metadata="ä" * 2000)


async def test_what_only_we_have_changed_takes_one_exchange(url: str) -> None:
    async with LockManager(url) as locks:
        lock = locks.lock("mine")
        async with lock:
            pass
        asked, stale = exchanges(locks)
        for _ in range(20):
            async with lock:
                pass
        assert exchanges(locks) == (asked + 40, stale)


async def test_what_another_has_changed_takes_two(url: str) -> None:
    async with LockManager(url) as one, LockManager(url) as two:
        fences = []
        for locks in (one, two, one, two):
            async with locks.lock("ours") as lease:
                fences.append(lease.fence)
        assert exchanges(one)[1] <= 2
    assert fences == sorted(set(fences))


@pytest.mark.parametrize("crowd", [5, 20])
async def test_what_many_ask_for_at_once(database: Database, crowd: int) -> None:
    """However many they are, each asks a few times: what it costs does not grow with their square. Kept by
    exchange_1: `crowd`.
    """
    async with contextlib.AsyncExitStack() as stack:
        with_patience: Any = {"liveness": 60, "request_timeout": 60, "ttl": 120}
        managers = [await stack.enter_async_context(LockManager(database.url, **with_patience)) for _ in range(crowd)]
        lease = await managers[0].lock("x").acquire()
        for manager in managers[1:]:  # none has to learn the time
            await (await manager.lock(f"mine {id(manager)}").acquire()).release()
        before = sum(exchanges(manager)[0] for manager in managers)
        waiters = [asyncio.create_task(manager.lock("x").acquire()) for manager in managers[1:]]
        queue = "SELECT 1 FROM aiolock.rows, json_each(value) WHERE rows.key = 'aiolock:lock:{x}:queue'"
        async with asyncio.timeout(60):
            while len(await asyncio.to_thread(database.run, queue)) < crowd - 1:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)
        assert sum(exchanges(manager)[0] for manager in managers) - before < 8 * crowd
        await lease.release()
        for waiter in asyncio.as_completed(waiters):
            await (await waiter).release()


async def test_many_that_wait(url: str) -> None:
    """Each says now and then that it still waits, and reads what the others have written before: two exchanges. Kept by
    exchange_1: `crowd`, and GuessingEngine._ask: who is answered at once does not wait in step with the others.
    """
    async with contextlib.AsyncExitStack() as stack:
        managers = [await stack.enter_async_context(LockManager(url, liveness=1.5, ttl=60)) for _ in range(12)]
        lease = await managers[0].lock("x").acquire()
        waiters = [asyncio.create_task(manager.lock("x").acquire()) for manager in managers[1:]]

        def asked() -> tuple[int, int]:
            counts = [exchanges(manager) for manager in managers]
            return sum(count for count, _ in counts), sum(stale for _, stale in counts)

        async with asyncio.timeout(60):
            while asked()[0] < 100:  # noqa: ASYNC110 - nothing tells; all are in the queue
                await asyncio.sleep(0.05)
            before, late = asked()
            while (now := asked())[0] < before + 100:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)
        assert now[0] - before < 3 * (now[0] - before - (now[1] - late))
        await lease.release()
        for waiter in asyncio.as_completed(waiters):
            await (await waiter).release()


async def test_hundreds_of_names_at_once(url: str) -> None:
    """The server takes a lock for each name of an exchange, and has room for some thousands. Kept by TOGETHER."""
    async with LockManager(url, ttl=120, request_timeout=60) as locks:
        leases = await asyncio.gather(*(locks.lock(f"many:{n}").acquire() for n in range(500)))
        await asyncio.gather(*(lease.release() for lease in leases))
        assert exchanges(locks)[0] < 100


@pytest.mark.parametrize("direction", [-3600.0, -0.3, 0.3, 3600.0])
async def test_the_servers_clock_is_set(url: str, direction: float) -> None:
    """What is known of it is wrong then. A lease ends no later here than there. Kept by exchange_1: `used`, and
    GuessingEngine: `sent_at`.
    """
    async with LockManager(url, ttl=30) as locks:
        async with locks.lock("x"):
            pass
        engine: Any = locks._runtime.backend._engine  # type: ignore[attr-defined]
        engine._time._server_us -= int(direction * 1e6)  # as if it was set after the last answer
        lease = await locks.lock("x").acquire()
        assert lease.remaining() <= 27
        if direction == 0.3:
            assert lease.remaining() <= 26.7
        await lease.release()


@pytest.fixture
def stepped(database: Database) -> Database:
    """Its functions show the time that `stepped.by` is away from the server's."""
    database.run("CREATE SCHEMA stepped; CREATE TABLE stepped.by(step interval); INSERT INTO stepped.by VALUES('0')")
    now = "(clock_timestamp() + (SELECT step FROM stepped.by))"
    database.run(SCHEMA.read_text(encoding="utf-8").replace("clock_timestamp()", now))
    return database


async def test_the_servers_clock_is_set_forward_while_a_lease_runs(stepped: Database) -> None:
    """It ends early, and whoever holds it is told. Kept by ServerTime.learn."""
    async with LockManager(stepped.url, ttl=60) as one, LockManager(stepped.url) as two:
        async with two.lock("y"):
            pass  # it knows the time
        lease = await one.lock("x").acquire()
        stepped.run("UPDATE stepped.by SET step = '1 hour'")
        async with two.lock("x").acquire(timeout=10) as later:
            assert later.fence > lease.fence
            with pytest.raises(LockLost):
                await lease.renew()


async def test_the_servers_clock_is_set_back_while_a_lease_runs(stepped: Database) -> None:
    """Nobody gets in before its time is over here, a waiter is told of the release, and fences rise. Kept by
    ServerTime.learn.
    """
    async with LockManager(stepped.url) as one, LockManager(stepped.url) as two:
        lease = await one.lock("x").acquire()
        stepped.run("UPDATE stepped.by SET step = '-1 hour'")
        waiter = asyncio.create_task(two.lock("x").acquire())
        await until_one_waits(stepped, "x")
        await lease.renew()
        await lease.release()
        later = await asyncio.wait_for(waiter, 10)
        assert later.fence > lease.fence
        await later.release()


async def test_no_database(database: Database) -> None:
    for url, says in {
        database.url.replace(database.name, "nowhere"): "does not exist",
        "postgresql://localhost": "must name a database",
        "postgresql://localhost:99999/x": "port",
    }.items():
        with pytest.raises(ConfigurationError, match=says):
            async with LockManager(url):
                pass
    with pytest.raises(BackendError, match="localhost:1/x"):
        async with LockManager("postgresql://u:secret@localhost:1/x") as locks:
            pass
    with pytest.raises(BackendError) as caught:
        async with LockManager("postgresql+asyncpg://u:secret@localhost:1/x") as locks:
            await locks.lock("x").acquire(timeout=0)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        "value = '[1]'",
        "value = '{\"owner\": 1}'",
        'value = \'{"owner": "x", "fence": "1", "expires": "soon"}\'',
        "kind = 'zset', value = '{\"a\": 1e999}'",
        "kind = 'string', value = '{}'",
        "kind = 'string', value = repeat('9', 5000)::json",
        "kind = 'string', value = (repeat('[', 3000) || repeat(']', 3000))::json",
    ],
)
async def test_a_damaged_row(database: Database, damage: str) -> None:
    """Whoever needs it is told its name; the others of the same moment, nothing. Kept by Row.of_json."""
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        lease = await one.lock("x").acquire()
        database.run(f"UPDATE aiolock.rows SET {damage} WHERE key = 'aiolock:lock:{{x}}'")
        damaged, fine = await asyncio.gather(
            two.lock("x").acquire(timeout=5), two.lock("y").acquire(timeout=5), return_exceptions=True
        )
        assert isinstance(damaged, BackendError)
        assert re.search(r"aiolock:lock:{x}.*delete it|this lock already holds another type", str(damaged))
        assert isinstance(fine, Lease)
        database.run("DELETE FROM aiolock.rows WHERE key = 'aiolock:lock:{x}'")
        with contextlib.suppress(LockLost):
            await lease.release()
        async with two.lock("x").acquire(timeout=5):
            pass


@pytest.mark.parametrize("damage", ["kind = '!'", "kind = ''", "version = 0", "version = -1"])
async def test_what_no_row_is(database: Database, damage: str) -> None:
    """With version 0 a held lock would look like a free one. Kept by the CHECKs of the table."""
    async with LockManager(database.url) as locks, locks.lock("x"):
        with pytest.raises(psycopg.errors.CheckViolation):
            database.run(f"UPDATE aiolock.rows SET {damage}")


@pytest.mark.parametrize(
    "fault", ["PERFORM no_such()", "PERFORM pg_sleep(60)", "PERFORM pg_terminate_backend(pg_backend_pid())"]
)
async def test_a_sweep_that_fails(database: Database, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """What was done before it counts as done. Kept by ServedEngine._sweep."""
    monkeypatch.setattr(served, "SWEEP", 1)
    async with LockManager(database.url, request_timeout=1.0) as locks, LockManager(database.url) as others:
        database.run("DROP FUNCTION aiolock.sweep_1")
        returns = f"RETURNS bigint LANGUAGE plpgsql AS 'BEGIN {fault}; RETURN 0; END'"
        database.run(f"CREATE FUNCTION aiolock.sweep_1() {returns}")
        answers = []
        exchange = engine.PostgresEngine.exchange

        async def seen(self: Any, plans: Any, *rest: Any) -> Any:
            answer = await exchange(self, plans, *rest)
            answers.append(len(plans))
            return answer

        monkeypatch.setattr(engine.PostgresEngine, "exchange", seen)
        assert await locks.lock("x").acquire(timeout=5)
        assert len(answers) == 2  # it has asked for the time first
        with pytest.raises(AcquireTimeout):
            await others.lock("x").acquire(timeout=0)


@pytest.mark.parametrize(
    ("parameter", "says"),
    [("connect_timeout=3", "connect_timeout.*asyncpg"), ("ssl=require", "sslmode"), ("client_encoding=x", "encoding")],
)
async def test_a_parameter_that_is_not_known(database: Database, parameter: str, says: str) -> None:
    """Waiting does not help. Kept by MISTAKEN, and HINTS."""
    with pytest.raises(ConfigurationError, match=says):
        async with LockManager(f"{database.url}&{parameter}"):
            pass


async def test_no_session_is_left(database: Database) -> None:
    """Kept by HINTS."""
    database.run(f"ALTER DATABASE {database.name} CONNECTION LIMIT 1")
    role = f"few_{database.name}"
    database.run(SCHEMA.read_text(encoding="utf-8"))
    database.run(f"CREATE ROLE {role} LOGIN; " + GRANTS.format(role))
    try:
        with pytest.raises(BackendError, match=r"too many connections.*Poll.*max_connections"):
            async with LockManager(database.url.replace("postgres:@", f"{role}:@")):
                pass
    finally:
        database.run(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_standby(database: Database) -> None:
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
async def test_a_database_of_another_encoding(database: Database, encoding: str) -> None:
    """A name that it has not would end all requests of its moment. Kept by dial()."""
    name = f"{database.name}_{encoding.lower()}"
    database.run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        with pytest.raises(ConfigurationError, match=f"{encoding}, .*UTF8"):
            async with LockManager(database.url.replace(database.name, name)):
                pass
    finally:
        database.run(f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_pooler_that_shares_sessions(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session answers than the one that was opened. Kept by dial()."""
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda _: 1)
    with pytest.raises(ConfigurationError, match="pooler"):
        async with LockManager(database.url):
            pass


async def test_what_has_expired_is_deleted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may ask for that name again. Kept by ServedEngine._sweep."""
    monkeypatch.setattr(served, "SWEEP", 1)
    async with LockManager(database.url) as locks:
        database.run(
            "INSERT INTO aiolock.rows VALUES('old', 'string', '\"\"', 1, 1), ('new', 'string', '\"\"', 9e15, 1)"
        )
        lease = await locks.lock("x").acquire()
        async with asyncio.timeout(10):
            while database.run("SELECT 1 FROM aiolock.rows WHERE key = 'old'"):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        assert len(database.run("SELECT 1 FROM aiolock.rows WHERE key IN ('new', 'aiolock:lock:{x}')")) == 2
        await lease.release()


async def test_who_looks_sees_locks_beside_odd_ones(database: Database) -> None:
    """One row that SQL cannot read must not hide all others. Kept by the view: its `replace` of NUL, and its CASE."""
    async with LockManager(database.url) as locks:
        odd = [await locks.lock(name, metadata="\0 \\\0 \\u0000 \\").acquire() for name in ("a", "b\0", "c")]
        database.run('UPDATE aiolock.rows SET value = \'{"owner": "x", "expires": "soon"}\' WHERE key ~ \'{c}$\'')
        seen = database.run("SELECT name, fence::bigint, expires > now() FROM aiolock.locks ORDER BY name")
        assert seen == [("a", odd[0].fence, True), ("b%00", odd[1].fence, True), ("c", None, None)]
        database.run("DELETE FROM aiolock.rows WHERE key ~ '{c}$'")


async def test_who_looks_sees_the_locks(database: Database) -> None:
    async with LockManager(database.url) as locks:
        held = await locks.lock("order:42").acquire()
        async with locks.lock("free"):
            pass
        assert database.run("SELECT name, fence::bigint FROM aiolock.locks") == [("order:42", held.fence)]
        await held.release()


def test_the_schema_is_in_the_package() -> None:
    assert Path(str(SCHEMA)).is_file()


async def test_a_message_that_is_sent_while_nobody_listens(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever listens again asks what happened meanwhile. Kept by Ear._tune: `again`."""
    async with (
        LockManager(database.url, ttl=300) as one,
        LockManager(database.url, ttl=300, liveness=300, recheck=300, request_timeout=60) as two,
    ):
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        await until_one_waits(database, "x")
        released = asyncio.Event()

        async def later(*where: Any) -> Session:
            await released.wait()
            return await dial(*where)

        monkeypatch.setattr(ear, "dial", later)
        theirs = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'aiolock'"
        database.run(f"SELECT pg_terminate_backend(pid) {theirs} AND query !~ 'exchange_1'")
        async with asyncio.timeout(10):
            while len(database.run(f"SELECT 1 {theirs}")) > 2:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.005)
        await lease.release()
        released.set()
        await (await asyncio.wait_for(waiter, 20)).release()
