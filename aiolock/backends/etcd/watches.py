"""What is watched through one connection: the places before others, and the manager's mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grpclib.client import Stream

from ..coordinator.store import Away, Refusal
from .link import Link
from .messages import DELETED, WATCH, unwatch, watch
from .wire import Message

Told = Callable[[bool | None, bytes], None]
"""Told of a change: whether the key is gone, and else what is in it. None: the watch has ended, and may have
missed some.
"""


class Watches:
    """A stream of watches, which ends with its connection.

    Args:
        link: the connection. It fails if the stream ends.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._told: dict[int, Told] = {}
        self._last = 0
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()

    def add(self, key: str, since: int, told: Told, *, deletes_only: bool = False, puts_only: bool = False) -> int:
        """Watch a key from a revision on; return the number of the watch."""
        self._last += 1
        self._told[self._last] = told
        self._outgoing.put_nowait(
            watch(self._last, key.encode(), since, deletes_only=deletes_only, puts_only=puts_only)
        )
        return self._last

    def drop(self, number: int) -> None:
        """Watch it no more."""
        if self._told.pop(number, None) is not None:
            self._outgoing.put_nowait(unwatch(number))

    async def run(self) -> None:
        """Listen until the connection ends."""
        sending: asyncio.Task[None] | None = None
        try:
            async with self._link.stream(WATCH) as stream:
                await stream.send_request()
                sending = asyncio.create_task(self._send(stream))
                while (received := await stream.recv_message()) is not None:
                    self._receive(Message(received))
            self._link.fail(ConnectionError("it ended the watches"))
        except (Away, Refusal) as why:
            self._link.fail(why)
        finally:
            if sending is not None:
                sending.cancel()

    async def _send(self, stream: Stream[bytes, bytes]) -> None:
        while True:
            message = await self._outgoing.get()
            try:
                await stream.send_message(message)
            except Exception as error:
                self._link.fail(error)
                return

    def _receive(self, message: Message) -> None:
        number = message.number(2)
        told = self._told.get(number)
        if told is None:
            return
        for event in message.messages(11):
            if event.number(1) == DELETED:
                told(True, b"")
            else:
                told(False, event.message(2).data(5))
        if message.number(4) and self._told.pop(number, None) is not None:  # where it was to begin is forgotten by now
            told(None, b"")
