"""The server ends, stands still, or its answer is lost: no lease is lost that lasts, and none outlives its time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncmy
import pytest
import trustme

from aiolock import AcquireTimeout, BackendError, ConfigurationError, Lease, LockLost, LockManager
from aiolock.backends.mysql.address import address_of
from aiolock.backends.mysql.engine import DEADLOCKS, EXCHANGE
from aiolock.backends.mysql.session import Session, dial
from tests.support import mysql
from tests.support.mysql import OwnServer
from tests.support.mywire import MySQLFramer
from tests.support.proxy import FaultProxy

from .database import MySQLDatabase


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    server = OwnServer()
    yield server
    server.close()


async def until_it_answers(locks: LockManager) -> None:
    """Return once the manager has found that it can be used again."""
    async with asyncio.timeout(30):
        while locks._runtime.backend.unreachable:  # type: ignore[attr-defined]  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def acquired(locks: LockManager) -> Lease:
    """Acquire a lock. A first attempt that nobody answers ends with an error, and is undone."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await locks.lock("x").acquire(timeout=10)
            except BackendError:
                await until_it_answers(locks)


def waits(server: OwnServer) -> bool:
    """Whether a process is in the queue of a lock."""
    with mysql.connect(server.port, database="locks") as link, link.cursor() as cursor:
        return bool(cursor.execute("SELECT 1 FROM aiolock_rows WHERE k LIKE '%:queue'"))


@pytest.mark.slow
async def test_it_is_restarted(server: OwnServer) -> None:
    """A long lease lives, a short one is lost in time, a waiter goes on, and fences rise."""
    async with LockManager(server.url, ttl=60) as one, LockManager(server.url, ttl=60) as two:
        long = await one.lock("long").acquire()
        waiter = asyncio.create_task(two.lock("long").acquire())
        async with asyncio.timeout(10):
            while not waits(server):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        short = await one.lock("short", ttl=1.0).acquire()
        with server.away():
            lost = time.monotonic()
            while not short.lost:  # noqa: ASYNC110 - the deadline, not an event
                await asyncio.sleep(0.01)
            assert time.monotonic() - lost < 5
        with pytest.raises(LockLost):
            await short.release()
        await until_it_answers(two)
        async with two.lock("short").acquire(timeout=30) as next_one:
            assert next_one.fence > short.fence
        assert not long.lost
        await long.release()
        lease = await asyncio.wait_for(waiter, 30)
        assert lease.fence > long.fence
        await lease.release()


async def test_nothing_listens_there() -> None:
    """The error says so in words of ours, and what to look at: the system's reason alone does not name the database."""
    with socket.socket() as bound:  # takes the port, and no connections
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(
            BackendError, match=rf":{port}/app: the server cannot be reached: .*\(.*(refused|failed).*\)"
        ) as caught:
            await LockManager(f"mysql://127.0.0.1:{port}/app").open()
    assert caught.value.transient


@pytest.mark.slow
async def test_it_stands_still(server: OwnServer) -> None:
    """A lease whose time is over meanwhile is lost, says its holder, before the server says so to anybody."""
    async with LockManager(server.url, ttl=1.5, request_timeout=1.0) as one, LockManager(server.url) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        with server.frozen():
            while not lease.lost:  # noqa: ASYNC110 - the deadline, not an event
                await asyncio.sleep(0.01)
        following = await asyncio.wait_for(waiter, 30)
        assert following.fence > lease.fence
        with pytest.raises(LockLost):
            await lease.release()
        await following.release()


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of exchanges, counted from now, whose answers are lost: the server has committed."""
    numbers: list[int] = []
    ask = Session.ask
    seen = 0

    async def lossy(self: Session, statement: str, *values: object) -> Any:
        nonlocal seen
        answer = await ask(self, statement, *values)
        if statement == EXCHANGE and numbers:
            seen += 1
            if seen in numbers:
                self.end()
                raise asyncmy.errors.OperationalError(2013, "Lost connection to MySQL server during query")
        return answer

    monkeypatch.setattr(Session, "ask", lossy)
    return numbers


@pytest.mark.parametrize("number", range(1, 8))
async def test_an_answer_is_lost(database: MySQLDatabase, losing: list[int], number: int) -> None:
    """What was committed is done once. Kept by Unavailable: `ran`, and `lost`."""
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        async with one.lock("x"):
            pass
        losing.append(number)
        fences = []
        for locks in (one, two, one):
            async with locks.lock("x").acquire(timeout=10) as lease:
                fences.append(lease.fence)
                async with locks.lock("x").acquire() as inner:
                    assert inner.fence == lease.fence
        assert fences == sorted(set(fences))
    assert database.run("SELECT * FROM aiolock_locks") == []


async def test_a_hand_off_whose_answer_is_lost(database: MySQLDatabase, losing: list[int]) -> None:
    async with LockManager(database.url) as one, LockManager(database.url) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        await database.until_one_waits("x")
        losing.append(1)
        await lease.release()
        following = await asyncio.wait_for(waiter, 10)
        assert following.fence > lease.fence
        assert not following.lost
        await following.release()
    assert database.run("SELECT * FROM aiolock_locks") == []


@pytest.mark.parametrize("action", ["cut", "lose_reply"])
async def test_the_network_loses_an_answer(database: MySQLDatabase, action: str) -> None:
    """The server has committed. Kept by Unavailable: `ran`."""
    async with FaultProxy("127.0.0.1", mysql.port(), framing=MySQLFramer) as proxy:
        behind = database.url.replace(str(mysql.port()), str(proxy.port))
        async with LockManager(behind, request_timeout=1.0) as one, LockManager(database.url) as two:
            async with one.lock("x") as before:
                pass
            rule = getattr(proxy, action)(matching=b'"hash"')
            lease = await acquired(one)
            assert rule.frames
            assert lease.fence > before.fence
            with pytest.raises(AcquireTimeout):
                await two.lock("x").acquire(timeout=0)
            rule = getattr(proxy, action)(matching=b'"hash"')
            await lease.release()
            async with two.lock("x").acquire(timeout=10) as following:
                assert following.fence > lease.fence
            assert rule.frames


async def test_answers_of_all_shapes_pass_a_proxy(database: MySQLDatabase) -> None:
    """The frames are what the client waits for: one for each request. Kept by MySQLFramer._ends."""
    async with FaultProxy("127.0.0.1", mysql.port(), framing=MySQLFramer) as proxy:
        session = await dial(address_of(database.url.replace(str(mysql.port()), str(proxy.port))), 5.0)
        numbers = "SELECT 1 UNION SELECT 2 UNION SELECT ?"
        text = "x" * 70_000
        for _ in range(2):
            assert await session.ask(numbers, 3) == ((1,), (2,), (3,))
            assert await session.ask("SELECT ?, NULL", text) == ((text, None),)
            await session.run("DO 1")
            with pytest.raises(asyncmy.errors.Error, match="no_such"):
                await session.ask("SELECT * FROM no_such")
        await session.run("CREATE PROCEDURE two() BEGIN SELECT 1; SELECT 2; END")
        assert await session.ask("CALL two()") == ((1,),)
        (link,) = proxy._links.values()
        assert link is not None
        assert link.sent == link.answered
        await session.close()


async def test_tls(tmp_path: Path) -> None:
    """Whoever has the right certificate is trusted, and nobody else. Kept by dial(): `ssl`."""
    authority, other = trustme.CA(), trustme.CA()
    server_key = authority.issue_cert("localhost")
    key, certificate, ours, theirs = (str(tmp_path / name) for name in ("key", "cert", "ca", "other"))
    server_key.private_key_pem.write_to_path(key)
    server_key.cert_chain_pems[0].write_to_path(certificate)
    authority.cert_pem.write_to_path(ours)
    other.cert_pem.write_to_path(theirs)
    settings = ("--require-secure-transport=ON", f"--ssl-key={key}", f"--ssl-cert={certificate}")
    with contextlib.closing(OwnServer(*settings)) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        async with LockManager(f"{url}?ssl_ca={ours}") as locks, locks.lock("x"):
            pass
        refused = {
            f"{url}?ssl_ca={theirs}": "certificate verify failed.*has it TLS",
            f"{server.url}?ssl_ca={ours}": "certificate verify failed",  # another name
            url: "insecure transport|Access denied",  # as MySQL says it, and MariaDB
        }
        for wrong, why in refused.items():
            with pytest.raises((BackendError, ConfigurationError), match=why):
                await LockManager(wrong).open()


async def test_a_deadlock(database: MySQLDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """InnoDB ends one of two transactions, and nothing of it is done. Kept by MySQLEngine.ask: DEADLOCKS."""
    ask, times = Session.ask, 0

    async def unlucky(self: Session, statement: str, *values: object) -> Any:
        nonlocal times
        if statement == EXCHANGE and times < DEADLOCKS:
            times += 1
            raise asyncmy.errors.OperationalError(1213, "Deadlock found when trying to get lock")
        return await ask(self, statement, *values)

    async with LockManager(database.url) as locks:
        monkeypatch.setattr(Session, "ask", unlucky)
        session = locks._runtime.backend._engine._session  # type: ignore[attr-defined]
        async with locks.lock("x"):
            assert times == DEADLOCKS
        assert session is locks._runtime.backend._engine._session  # type: ignore[attr-defined]
