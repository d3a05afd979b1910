"""A connection's transport read without a stream: its replies are given out in the very call that brings their bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis
from redis.exceptions import InvalidResponse

from .push import Push

_NOTHING = object()


class Wire(asyncio.Protocol):
    """Takes the place of the stream's protocol once a connection is made, greeted, and silent.

    The stream it takes over from is still told what it needs for writing and closing: when to pause, and that the
    connection is lost.

    Args:
        transport: connected.
        parse_error: makes an exception of an error reply's text.
    """

    def __init__(self, transport: asyncio.Transport, parse_error: Callable[[str], Exception]) -> None:
        self._transport = transport
        self._reader = hiredis.Reader(protocolError=InvalidResponse, replyError=parse_error, notEnoughData=_NOTHING)
        self._receive: Callable[[object], None] | None = None
        self._lost: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._stream: Any = transport.get_protocol()
        transport.set_protocol(self)

    async def pump(self, receive: Callable[[object], None]) -> Exception:
        """Give each reply, error reply (as an exception) and `Push` to `receive` until the connection is lost.

        Returns:
            Why it was lost, or what `receive` raised.

        Cancellation: nothing more is given out.
        """
        self._receive = receive
        self._give()
        try:
            await asyncio.wait((self._lost,))
        finally:
            self._receive = None
        return self._lost.result()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._give()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stream.connection_lost(exc)
        self._end(exc or ConnectionError("the server closed the connection"))

    def pause_writing(self) -> None:
        self._stream.pause_writing()

    def resume_writing(self) -> None:
        self._stream.resume_writing()

    def _give(self) -> None:
        try:
            while self._receive is not None and (reply := self._reader.gets()) is not _NOTHING:
                self._receive(Push(reply) if type(reply) is hiredis.PushNotification else reply)
        except Exception as error:
            self._receive = None  # what comes behind belongs to nobody
            self._end(error)

    def _end(self, cause: Exception) -> None:
        if not self._lost.done():
            self._lost.set_result(cause)
