"""Poolers: PgBouncer, where it is installed, and one that changes the session whenever it may."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from aiolock.testing.server import _free_port as free_port

PGBOUNCER = os.environ.get("AIOLOCK_TEST_PGBOUNCER") or shutil.which("pgbouncer")
"""Its binary."""
ALLOWED = (b"user", b"database", b"client_encoding", b"application_name", b"datestyle", b"timezone")
SESSIONS = 3


def socket_folder(url: str) -> str:
    """Where the server of a test listens."""
    return parse_qs(urlsplit(url).query)["host"][0]


@contextmanager
def started(url: str, mode: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """PgBouncer in front of a database; its own address for that, and its process."""
    assert PGBOUNCER is not None
    port, name, server = free_port(), urlsplit(url).path.strip("/"), socket_folder(url)
    folder = Path(tempfile.mkdtemp(prefix="aiolock-pooler-"))  # where another user may enter
    users, settings = folder / "users.txt", folder / "pgbouncer.ini"
    users.write_text('"postgres" ""\n', encoding="utf-8")
    settings.write_text(
        f"[databases]\n{name} = host={server} dbname={name}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nauth_type = trust\nauth_file = {users}\npool_mode = {mode}\ndefault_pool_size = 4\n"
        "unix_socket_dir =\n",
        encoding="utf-8",
    )
    user_id: int | None = None
    if os.geteuid() == 0:  # it refuses to run as root
        user_id = Path(server).stat().st_uid  # who may reach the server
        for path in (folder, users, settings):
            os.chown(path, user_id, -1)
    process = subprocess.Popen(
        [PGBOUNCER, "--quiet", str(settings)], user=user_id, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/{name}", process
    finally:
        process.kill()
        process.wait(10)
        shutil.rmtree(folder)


@asynccontextmanager
async def pgbouncer(url: str, mode: str = "transaction") -> AsyncIterator[str]:
    """The same, once it answers."""
    with started(url, mode) as (address, process):
        await _answers(urlsplit(address).port, process)
        yield address


async def _answers(port: int | None, process: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(10):
        while True:
            assert process.poll() is None, "it has ended"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.close()
            return


@asynccontextmanager
async def fickle(url: str, refuses: bool = True) -> AsyncIterator[str]:
    """A pooler that gives each transaction another session than the one before.

    Args:
        url: of the database.
        refuses: settings of a session when it is opened; otherwise it forgets them.
    """
    name, path = urlsplit(url).path.strip("/"), f"{socket_folder(url)}/.s.PGSQL.5432"
    sessions = [await Upstream.open(path, name) for _ in range(SESSIONS)]
    turns = itertools.cycle(sessions)
    clients: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await _serve(reader, writer, lambda: next(turns), sessions[0].greeting, refuses)
        clients.discard(task)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"postgresql://postgres@127.0.0.1:{server.sockets[0].getsockname()[1]}/{name}"
    finally:
        server.close()
        for task in list(clients):
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        for session in sessions:
            session.writer.close()


class Upstream:
    """One session of the server.

    Attributes:
        reader, writer: its streams.
        greeting: what the server has said of itself.
        alone: held by the client whose transaction it is.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.greeting = b""
        self.alone = asyncio.Lock()

    @classmethod
    async def open(cls, path: str, database: str) -> Upstream:
        made = cls(*await asyncio.open_unix_connection(path))
        words = b"user\0postgres\0database\0" + database.encode() + b"\0\0"
        made.writer.write((8 + len(words)).to_bytes(4, "big") + (3 << 16).to_bytes(4, "big") + words)
        while not (message := await _message(made.reader)).startswith(b"Z"):
            if message.startswith(b"S"):
                made.greeting += message
        return made


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


async def _serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    following: Callable[[], Upstream],
    greeting: bytes,
    refuses: bool,
) -> None:
    words = b""
    while not words:
        size = int.from_bytes(await reader.readexactly(4), "big")
        words = await reader.readexactly(size - 4)
        if words.startswith((1234 << 16 | 5679).to_bytes(4, "big")):  # asks for TLS
            writer.write(b"N")
            words = b""
    if not words.startswith((3 << 16).to_bytes(4, "big")):  # asks for the end of a statement
        return
    asked = _pairs(words[4:])
    other = [key for key in asked if key.lower() not in ALLOWED]
    if refuses and other:
        said = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: " + other[0] + b"\0\0"
        writer.write(b"E" + (4 + len(said)).to_bytes(4, "big") + said)
        return
    writer.write(b"R\0\0\0\x08\0\0\0\0" + greeting + b"K\0\0\0\x0c\0\0\0\x07\0\0\0\x07" + b"Z\0\0\0\x05I")
    while True:
        message = await _message(reader)
        if message.startswith(b"X"):
            return
        session = following()
        async with session.alone:
            await _transaction(session, message, reader, writer)


async def _transaction(
    session: Upstream, message: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Pass everything on until the session is idle."""

    async def back() -> None:
        while True:
            answer = await _message(session.reader)
            writer.write(answer)
            if answer == b"Z\0\0\0\x05I":
                return

    backwards = asyncio.create_task(back())
    try:
        session.writer.write(message)
        while not backwards.done():
            more = asyncio.create_task(_message(reader))
            await asyncio.wait((backwards, more), return_when=asyncio.FIRST_COMPLETED)
            if backwards.done() and not more.done():
                more.cancel()  # nothing of it has come: a client waits for the end of what it asked for
                await asyncio.gather(more, return_exceptions=True)
                return
            session.writer.write(await more)
        await backwards
    finally:
        backwards.cancel()
        await asyncio.gather(backwards, return_exceptions=True)


def _pairs(words: bytes) -> dict[bytes, bytes]:
    parts = words.rstrip(b"\0").split(b"\0")
    return dict(zip(parts[::2], parts[1::2], strict=False))
