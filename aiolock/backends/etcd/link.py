"""One connection to one member of a cluster, by gRPC. grpclib is written in Python alone: a process that forks can use
it in the child.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from grpclib.client import Channel, Stream, StreamStreamMethod, UnaryUnaryMethod
from grpclib.const import Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError, StreamTerminatedError

from ...clock import format_seconds
from ...errors import BackendError
from ..coordinator.store import Away, Refusal

PATIENCE = 3.0
"""Seconds without an answer after which another member is asked, at most."""
LEAST = 0.5
"""The same, at least: a busy machine is not a dead one."""
_UNSURE = (Status.UNAVAILABLE, Status.DEADLINE_EXCEEDED, Status.CANCELLED, Status.RESOURCE_EXHAUSTED, Status.UNKNOWN)
"""It may have been done, or may be if it is asked for again."""


class _Raw(CodecBase):
    """Messages are bytes already."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return data


class Link:
    """A connection, until it fails: then it never works again.

    Args:
        host, port: of the member.
        tls: how it is encrypted; None if it is not.
        failed: told once why it works no more.

    Attributes:
        patience: seconds without an answer after which it counts as failed.
        token: of the user, "" for none.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, failed: Callable[[Exception], None]) -> None:
        self.address: str = f"{host}:{port}"
        self.patience: float = PATIENCE
        self.token: str = ""
        self._failed = failed
        self._channel = Channel(host, port, codec=_Raw(), ssl=tls)
        self._methods: dict[str, UnaryUnaryMethod[bytes, bytes]] = {}
        self._scopes: set[asyncio.Timeout] = set()  # of what waits for this connection
        self.closed: bool = False

    async def ask(self, path: str, body: bytes) -> bytes:
        """Ask, and return the answer.

        Raises:
            Away: there is no answer, and the connection is closed.
            Refusal: etcd says no, perhaps only for now.
        """
        method = self._methods.get(path)
        if method is None:
            method = self._methods[path] = UnaryUnaryMethod(self._channel, path, bytes, bytes)
        with self._translated():
            async with self._scope(self.patience):
                return await method(body, metadata=self._metadata())

    @asynccontextmanager
    async def stream(self, path: str, patience: float | None = None) -> AsyncIterator[Stream[bytes, bytes]]:
        """Open a stream in both directions, for so many seconds at most. Raises the same."""
        method: StreamStreamMethod[bytes, bytes] = StreamStreamMethod(self._channel, path, bytes, bytes)
        with self._translated():
            async with self._scope(patience), method.open(metadata=self._metadata()) as stream:
                yield stream

    async def ask_many(self, path: str, bodies: list[bytes]) -> list[bytes]:
        """Ask through a stream of its own; return an answer to each. Raises the same."""
        async with self.stream(path, self.patience) as stream:
            for at, body in enumerate(bodies, 1):
                await stream.send_message(body, end=at == len(bodies))
            answers = []
            for _ in bodies:
                answer = await stream.recv_message()
                if answer is None:
                    raise StreamTerminatedError("the stream ended early")
                answers.append(answer)
            return answers

    def fail(self, why: Exception) -> None:
        """Close it, and tell why."""
        if not self.closed:
            self.close()
            self._failed(why)

    def close(self) -> None:
        """Close it: whatever is asked gets no answer."""
        self.closed = True
        self._channel.close()
        now = asyncio.get_running_loop().time()
        for scope in self._scopes:  # also what waits to be connected again, which closing does not end
            if not scope.expired():
                scope.reschedule(now)

    def _metadata(self) -> dict[str, str]:
        # A member that is cut off from its leader ends requests and streams instead of being silent.
        return {"hasleader": "true", "token": self.token} if self.token else {"hasleader": "true"}

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if self.closed:
            raise Away(
                BackendError("", f"the connection to etcd at {self.address} is closed", transient=True), ran=False
            )
        try:
            yield
        except GRPCError as error:
            said = error.message or error.status.name
            lost = "no leader" in said or error.status is Status.UNAUTHENTICATED  # a token has a time, too
            if not lost and error.status in _UNSURE and not self.closed:
                raise Refusal(said, transient=True) from error
            if not lost and not self.closed:
                raise Refusal(said) from error
            raise self._away(error, said) from error
        except (Away, Refusal):
            raise
        except Exception as error:  # grpclib and h2 raise all kinds of errors on a connection that has just died
            raise self._away(error, str(error) or type(error).__name__) from error
        finally:
            if self.closed:
                self._channel.close()  # a request may have opened it again

    def _away(self, error: Exception, why: str) -> Away:
        self.fail(error)
        return Away(BackendError("", f"etcd at {self.address}: {why}", transient=True))

    @asynccontextmanager
    async def _scope(self, patience: float | None) -> AsyncIterator[None]:
        """Wait for so many seconds at most, and no longer than the connection lives."""
        scope = asyncio.timeout(patience)
        try:
            async with scope:
                self._scopes.add(scope)
                yield
        except TimeoutError as error:
            if patience is None or self.closed:
                raise ConnectionError("the connection is closed") from error
            raise TimeoutError(f"no answer within {format_seconds(patience)} s") from error
        finally:
            self._scopes.discard(scope)
