"""A transport read without a stream: replies are delivered in the same call that brings their bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis
from redis.exceptions import InvalidResponse

from .failures import ErrorReply

_NOTHING = object()


class RespProtocol(asyncio.Protocol):
    """Replaces the stream's protocol on a connection that is made, and silent. Needs no task.

    The stream continues to write and close, so it is still told when to pause and that the connection is lost.

    Args:
        transport: connected, and not closing: otherwise its loss may be on its way to the stream alone.

    Attributes:
        paused: the transport has more to send than it should.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._reader = hiredis.Reader(protocolError=InvalidResponse, replyError=ErrorReply, notEnoughData=_NOTHING)
        self.paused: bool = False
        self._receive: Callable[[object], None] | None = None
        self._lost: Callable[[Exception], None] | None = None
        self._resumed: Callable[[], None] | None = None
        self._over = False
        self._cause: Exception | None = None
        self._stream: Any = transport.get_protocol()
        transport.set_protocol(self)

    def start(
        self, receive: Callable[[object], None], lost: Callable[[Exception], None], resumed: Callable[[], None]
    ) -> None:
        """Deliver what comes, and what came since the stream was replaced or `wait` was called.

        Args:
            receive: gets each reply, error reply (as an exception) and push (`hiredis.PushNotification`).
            lost: told once why no more will come: the connection was lost, or what `receive` raised.
            resumed: told when the transport has caught up with sending.
        """
        self._receive = receive
        self.data_received(b"")
        if self._cause is None:
            self._lost, self._resumed = lost, resumed
        else:
            self.stop()
            lost(self._cause)

    def wait(self) -> None:
        """Keep what comes until the next `start`."""
        self._receive = self._lost = self._resumed = None

    def stop(self) -> None:
        """Deliver nothing more."""
        self._over = True
        self._lost = self._resumed = None

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._reader.feed(data)
        gets = self._reader.gets
        try:
            while self._receive is not None and (reply := gets()) is not _NOTHING:
                self._receive(reply)
        except Exception as error:
            self._over = True  # what follows belongs to no one
            self._end(error)
        except BaseException:  # from a signal handler, at any point
            self._over = True
            self._end(ConnectionError("the process was interrupted while a reply was read"))
            raise

    def eof_received(self) -> bool | None:
        self._end(ConnectionError("the server closed the connection"))
        keep_open: bool | None = self._stream.eof_received()  # so that there is only one way to close it: a reset
        return keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self._stream.connection_lost(None)  # nobody asks the stream why: its future would say so when it is collected
        self._end(exc or ConnectionError("the connection was closed"))

    def pause_writing(self) -> None:
        self.paused = True
        self._stream.pause_writing()

    def resume_writing(self) -> None:
        self.paused = False
        self._stream.resume_writing()
        if self._resumed is not None:
            self._resumed()

    def _end(self, cause: Exception) -> None:
        if self._cause is None:
            self._cause = cause
            if self._lost is not None:
                lost = self._lost
                self.stop()
                lost(cause)
