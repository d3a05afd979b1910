"""What only a server of MariaDB or MySQL does: the shapes of its answers, TLS, deadlocks."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import asyncmy
import pytest
import trustme

from aiolock import BackendError, ConfigurationError, LockManager
from aiolock.backends.mysql.address import address_of
from aiolock.backends.mysql.engine import DEADLOCKS, EXCHANGE
from aiolock.backends.mysql.session import Session, dial
from tests.support.mysql import OwnServer
from tests.support.proxy import FaultProxy

from .database import MySQLDatabase


async def test_answers_of_all_shapes_pass_a_proxy(database: MySQLDatabase) -> None:
    """The frames are what the client waits for: one for each request. Kept by MySQLFramer._ends."""
    async with FaultProxy(*database.where, framing=database.framing) as proxy:
        session = await dial(address_of(database.behind(proxy.port)), 5.0)
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


@pytest.mark.slow
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
            f"{url}?ssl_ca={theirs}": "certificate verify failed.*does it speak TLS",
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
