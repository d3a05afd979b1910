"""Whether a server speaks TLS, or does not: asked when a first connection finds out nothing."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Awaitable, Callable

from redis.exceptions import InvalidResponse

from ...errors import ConfigurationError
from .tls import NOT_TLS

HEAD_START = 0.3
"""Seconds of silence in a handshake, after which the server is asked if it speaks without TLS."""
GRACE = 0.3
"""Seconds that a handshake gets if it does: some servers speak both on one port."""
PATIENCE = 1.0
"""Seconds that an answer may take: a server that is the wrong one answers at once."""
_STRANGE = (InvalidResponse, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_HUNG_UP = re.compile("closed|reset|aborted|lost|broken pipe|eof", re.IGNORECASE)


class Scheme:
    """Finds out if the URL of a server has the wrong scheme.

    Args:
        host: the server's.
        port: the server's.
        context: for TLS; None without.
        reach: connects to it.
    """

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext | None, reach: Callable[[], Awaitable[socket.socket]]
    ) -> None:
        self._host = host
        self._port = port
        self._context = context
        self._reach = reach

    async def check(self, connect: Callable[[], Awaitable[None]]) -> None:
        """Run `connect`.

        Raises:
            ConfigurationError: the server speaks TLS and is asked without, or the reverse.
            SSLError: what it says about a client to which it then hung up.
            Exception: what `connect` raises otherwise.

        Cancellation: `connect` is cancelled, and nothing else is left open. Cost: nothing but a task with TLS; if it
        fails, one or two more connections.
        """
        if self._context is not None:
            await self._check_tls(connect, self._context)
            return
        try:
            await connect()
        except Exception as error:
            if _unclear(error) and await self._answer(_greeting()) in (b"\x15\x03", b"\x16\x03"):
                raise self._wrong("speaks TLS, and is asked without it: write rediss://") from error
            raise

    async def _check_tls(self, connect: Callable[[], Awaitable[None]], context: ssl.SSLContext) -> None:
        opening = asyncio.ensure_future(connect())
        asking = asyncio.ensure_future(self._speaks_plainly(opening))
        try:
            await asyncio.wait((opening, asking), return_when=asyncio.FIRST_COMPLETED)
            if (not opening.done() or opening.exception()) and await asking:
                raise self._wrong("does not speak TLS: write redis://")
            await asyncio.wait((opening,))
        finally:
            for task in (opening, asking):
                task.cancel()
            await asyncio.gather(opening, asking, return_exceptions=True)
        error = opening.exception()
        if error is not None:
            if _unclear(error):
                await self._hear_objection(context)
            raise error

    async def _speaks_plainly(self, opening: asyncio.Future[None]) -> bool:
        await asyncio.wait((opening,), timeout=HEAD_START)
        if opening.done():
            error = opening.exception()
            if error is None or not _unclear(error):
                return False
        answers = (await self._answer(b"PING\r\n"))[:1] in (b"+", b"-")
        if answers:
            await asyncio.wait((opening,), timeout=GRACE)
        return answers

    async def _hear_objection(self, context: ssl.SSLContext) -> None:
        """Say nothing: what it says about the client is lost if it is still sent something."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._exchange(b"", context)
        except ssl.SSLEOFError:
            pass
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                raise

    async def _answer(self, said: bytes) -> bytes:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._exchange(said, None)
        except OSError:  # TimeoutError is one
            return b""

    async def _exchange(self, said: bytes, context: ssl.SSLContext | None) -> bytes:
        named = None if context is None else self._host
        reader, writer = await asyncio.open_connection(sock=await self._reach(), ssl=context, server_hostname=named)
        try:
            writer.write(said)
            return await reader.read(2)
        finally:
            writer.transport.abort()

    def _wrong(self, why: str) -> ConfigurationError:
        client = "ssl=False" if self._context is not None else "ssl=True"
        return ConfigurationError(
            "", f"the server at {self._host}:{self._port} {why} in its URL ({client} in a client)"
        )


def _unclear(error: BaseException) -> bool:
    """Whether the server hung up, or answered something else. Not every redis-py quotes what led to its error."""
    one: BaseException | None = error
    while one is not None:
        text = str(one)
        if isinstance(one, _STRANGE) or _HUNG_UP.search(text) or NOT_TLS.search(text):
            return True
        one = one.__cause__ or one.__context__
    return False


def _greeting() -> bytes:
    """The first message of a client that speaks TLS."""
    said = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
            ssl.MemoryBIO(), said, server_hostname="localhost"
        ).do_handshake()
    return said.read()
