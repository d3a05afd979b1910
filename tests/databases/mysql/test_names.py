"""Host names are looked up without the threads of the loop, and a certificate must be one of that name."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any

import pytest
import trustme

from aiolock import BackendError, LockManager
from tests.support.mysql import OwnServer
from tests.transport.test_resolver import LOOK_UP, Names, busy_executor
from tests.transport.test_resolver import names as names

from .database import MySQLDatabase


async def test_all_threads_are_busy(database: MySQLDatabase, names: Names) -> None:
    """Kept by _connect(): `resolver`."""
    with busy_executor():
        async with LockManager(database.url.replace("127.0.0.1", "db.test")) as locks, locks.lock("x"):
            assert names.asked


async def test_the_first_address_takes_no_connections(database: MySQLDatabase, names: Names) -> None:
    """Kept by _connect(): `others`."""

    def two(_: Any, port: Any, *args: Any, **options: Any) -> Any:
        return [*LOOK_UP("127.0.0.2", port, *args, **options), *LOOK_UP("127.0.0.1", port, *args, **options)]

    names.answers = two
    async with LockManager(database.url.replace("127.0.0.1", "db.test")) as locks, locks.lock("x"):
        assert names.asked


async def test_nobody_has_the_name(database: MySQLDatabase, names: Names) -> None:
    names.refuse(socket.EAI_NONAME)
    with pytest.raises(BackendError, match=r"cannot be reached: .*as the test says"):
        await LockManager(database.url.replace("127.0.0.1", "db.test")).open()


@pytest.mark.parametrize("certified", ["db.test", "other.test"])
async def test_a_certificate(names: Names, tmp_path: Path, certified: str) -> None:
    """It must have the name, though an address was connected to. Kept by _certified()."""
    authority, key, certificate, trust = trustme.CA(), *(tmp_path / name for name in ("key", "certificate", "ca.pem"))
    of_server = authority.issue_cert(certified)
    of_server.private_key_pem.write_to_path(str(key))
    of_server.cert_chain_pems[0].write_to_path(str(certificate))
    authority.cert_pem.write_to_path(str(trust))
    with contextlib.closing(OwnServer(f"--ssl-key={key}", f"--ssl-cert={certificate}")) as server:
        url = f"{server.url.replace('127.0.0.1', 'db.test')}?ssl_ca={trust}"
        if certified == "db.test":
            async with LockManager(url) as locks, locks.lock("x"):
                pass
        else:
            with pytest.raises(BackendError, match=r"certificate is not valid for 'db.test'"):
                await LockManager(url).open()
