"""A transport read without a stream: replies are given out in the very call that brings their bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis
from redis.exceptions import InvalidResponse

from .push import Push

_NOTHING = object()


class Wire(asyncio.Protocol):
    """Takes the place of the stream's protocol on a connection that is made, greeted, and silent.

    The stream goes on writing and closing, so it is still told when to pause and that the connection is lost.

    Args:
        transport: connected, and not closing: its loss may already be on its way to the stream alone.
        parse_error: makes an exception of an error reply's text.

    Attributes:
        paused: the transport has more to send than it should.
    """

    def __init__(self, transport: asyncio.Transport, parse_error: Callable[[str], Exception]) -> None:
        self._reader = hiredis.Reader(protocolError=InvalidResponse, replyError=parse_error, notEnoughData=_NOTHING)
        self.paused: bool = False
        self._receive: Callable[[object], None] | None = None
        self._over = False
        self._end: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._stream: Any = transport.get_protocol()
        transport.set_protocol(self)

    async def pump(self, receive: Callable[[object], None]) -> Exception:
        """Give each reply, error reply (as an exception) and `Push` to `receive` until the connection is lost.

        Returns:
            Why it was lost, or what `receive` raised.

        Cancellation: nothing more is given out.
        """
        self._receive = receive
        try:
            self.data_received(b"")  # what came since the stream was left
            await asyncio.wait((self._end,))
            return self._end.result()
        finally:
            self._over = True
            self._stop(ConnectionError("no longer read"))

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._reader.feed(data)
        gets = self._reader.gets
        try:
            while self._receive is not None and (reply := gets()) is not _NOTHING:
                self._receive(Push(reply) if type(reply) is hiredis.PushNotification else reply)
        except Exception as error:
            self._over = True  # what comes behind belongs to nobody
            self._stop(error)

    def eof_received(self) -> bool | None:
        self._stop(ConnectionError("the server closed the connection"))
        keep_open: bool | None = self._stream.eof_received()  # so that it is closed in one way only: by a reset
        return keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self._stream.connection_lost(exc)
        self._stop(exc or ConnectionError("the connection was closed"))

    def pause_writing(self) -> None:
        self.paused = True
        self._stream.pause_writing()

    def resume_writing(self) -> None:
        self.paused = False
        self._stream.resume_writing()

    def _stop(self, cause: Exception) -> None:
        if not self._end.done():
            self._end.set_result(cause)
