"""Host names are looked up without the threads of the loop, and a certificate must be one of that name."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from aiolock import BackendError, LockManager
from aiolock.backends.postgres.address import address_of
from aiolock.backends.postgres.session import dial
from tests.support.pooler import socket_folder
from tests.transport.test_resolver import Names, busy_executor
from tests.transport.test_resolver import names as names

from .database import PostgresDatabase

ASKS_FOR_TLS = b"\0\0\0\x08\x04\xd2\x16\x2f"


@asynccontextmanager
async def over_tcp(database: PostgresDatabase, name: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of the database under a host name, perhaps encrypted."""
    path, passing = f"{socket_folder(database.url)}/.s.PGSQL.5432", set[asyncio.Task[None]]()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(8)
        if first == ASKS_FOR_TLS:
            writer.write(b"N" if tls is None else b"S")
            try:
                if tls is not None:
                    await writer.start_tls(tls)
                first = await reader.readexactly(8)
            except (OSError, asyncio.IncompleteReadError):
                return
        inner, outer = await asyncio.open_unix_connection(path)
        outer.write(first)
        for way in (carry(reader, outer), carry(inner, writer)):
            passing.add(asyncio.create_task(way))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"postgresql://postgres@{name}:{server.sockets[0].getsockname()[1]}/{database.name}"
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)


async def hands_over(url: str) -> None:
    """Two managers hand a lock over, by a message."""
    async with LockManager(url) as one, LockManager(url) as two:
        lease = await one.lock("x").acquire()
        waiter = asyncio.create_task(two.lock("x").acquire())
        await asyncio.sleep(0.1)
        await lease.release()
        await (await asyncio.wait_for(waiter, 10)).release()


async def test_all_threads_are_busy(database: PostgresDatabase, names: Names) -> None:
    """Kept by ResolvingLoop."""
    async with over_tcp(database, "db.test") as url:
        with busy_executor():
            await hands_over(url)
    assert names.asked


@pytest.mark.parametrize("certified", ["db.test", "other.test"])
async def test_a_certificate(database: PostgresDatabase, names: Names, tmp_path: Path, certified: str) -> None:
    """It must have the name, though an address was connected to. Kept by ResolvingLoop: asyncpg is given the name."""
    authority, trust = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(trust))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(certified).configure_cert(tls)
    async with over_tcp(database, "db.test", tls) as url:
        verified = f"{url}?sslmode=verify-full&sslrootcert={trust}"
        if certified == "db.test":
            await hands_over(verified)
        else:
            with pytest.raises(BackendError, match=r"certificate is not valid for 'db.test'"):
                await LockManager(verified).open()


async def test_afterwards_the_loop_is_the_real_one(database: PostgresDatabase) -> None:
    """asyncpg asks it which task runs, when it gives up a statement. Kept by _connect: `_loop`."""
    session = await dial(address_of(database.url), 5.0)
    assert session.link._loop is asyncio.get_running_loop()
    session.link.terminate()
