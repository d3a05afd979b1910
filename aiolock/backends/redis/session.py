"""The life of one connection: writes what waits in the outbox, and reads until it is gone. Needs no task."""

from __future__ import annotations

import asyncio
import enum
import itertools
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from hiredis import PushNotification

from ...clock import Clock, format_seconds
from ...errors import BackendError
from ...scripts.base import Call
from .channels import Channels, Leave, Subscribe, Unsubscribe
from .connection import Link, pack
from .credentials import Authenticate
from .heartbeat import Heartbeat
from .outbox import Asking, Item, Outbox
from .replicas import Assurance
from .replies import Acknowledgement, Asked, Authenticated, Confirmation, Departure, Echo, Loaded, Replies, Scripts

ENOUGH = 32
"""Calls of one turn of the loop that are written before its end: the server works on them while more are made."""


class State(enum.Enum):
    """Of a session: it writes what is put into its outbox; or does not, because the transport has enough to send, so
    that you can still withdraw calls; or it is closed, or lost.
    """

    OPEN = enum.auto()
    CONGESTED = enum.auto()
    OVER = enum.auto()


OPEN, CONGESTED, OVER = State  # read at every call: not looked up in the class


class Session:
    """Writes what is put into the outbox: at once if nothing is on its way, otherwise all of a turn of the loop
    together.

    Args:
        link: connected and greeted.
        outbox: what to write; shared with the sessions before and after.
        channels: gets the messages; shared likewise.
        clock: stamps calls.
        timeout: seconds in which the server must answer.
        lost: told once, in a later turn of the loop, why the connection is gone; not if it was closed. It is then
            abandoned.
        refused: told each error reply to a call.
        idle: seconds of silence after which an idle server is pinged.
        assurance: whether what is written outlasts the server; then there is one write at a time, never before the end
            of a turn, and calls made meanwhile leave in the next. None if no one asks.
    """

    def __init__(
        self,
        link: Link,
        outbox: Outbox,
        channels: Channels,
        clock: Clock,
        timeout: float,
        lost: Callable[[Exception], None],
        refused: Callable[[Call[Any], Exception], None],
        idle: Callable[[], float],
        assurance: Assurance | None = None,
    ) -> None:
        self.link = link
        self.replies: Replies = Replies()
        self._pending = self.replies.pending
        self.scripts: Scripts = Scripts()
        self._outbox = outbox
        self._channels = channels
        self._clock = clock
        self._timeout = timeout
        self._lost = lost
        self._refused = refused
        self._assurance = assurance
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._nonces = (f"{secrets.token_hex(8)}:{number}".encode() for number in itertools.count())
        self._state: State = OPEN
        self._quiet: asyncio.Future[None] | None = None
        self._heartbeat = Heartbeat(timeout, self._waiting, self._ping, self._overdue, idle)

    def start(self) -> None:
        """Read from now on."""
        self.link.start(self._receive, self.abandon, self._resumed)

    def put(self, item: Item) -> None:
        """Write `item` now, or with the others that wait."""
        if (
            self._pending
            or not self._outbox.empty
            or self._assurance is not None
            or self._state is OVER
            or self.link.gone()
        ):
            waiting = self._outbox.put(item)
            if not self._scheduled:
                self.wake()
            elif waiting >= ENOUGH and self._assurance is None:
                self.flush()
        else:
            self._heartbeat.heard = True
            try:
                data = self._encode(item, self._clock.now(), None)
                if data:
                    self._send(data)
            except BaseException:
                self._interrupted([item])
                raise

    def put_off(self, item: Item) -> None:
        """Write `item` at the end of this turn of the loop, so that it does not delay the tasks that the last answer
        woke.
        """
        self._outbox.put(item)
        self._schedule()

    def wake(self) -> None:
        """Something was put into the outbox."""
        if self._pending or self._assurance is not None:
            self._schedule()
        elif not self._scheduled:
            self.flush()

    def _schedule(self) -> None:
        if not self._loop.is_running():
            self.flush()  # there may be no other turn
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush_turn)

    def flush(self) -> None:
        """Write the outbox now, in one piece."""
        if self._outbox.empty or self._state is not OPEN or self.link.gone():
            return
        if not (self._pending and self._assurance is not None):
            items = self._outbox.take()
            try:
                self._write(items)
            except BaseException:
                self._interrupted(items)
                raise

    def _write(self, items: Sequence[Item]) -> None:
        if not self._pending:
            self._heartbeat.heard = True
        now = self._clock.now()
        together = None if self._assurance is None else Acknowledgement(self._assurance, self._ask_again)
        data = b"".join([self._encode(item, now, together) for item in items])
        if self._assurance is not None and together:
            data += self._assurance.question()
            self._pending.append(together)
            self._pending.append(together)
        if data:
            self._send(data)
        else:
            self._note_quiet()

    async def quiet(self) -> bool:
        """Wait until everything is written and answered.

        Returns:
            False if there was no answer for so long that none can be expected, or the connection is gone.

        Cancellation: nothing changes.
        """
        self.wake()
        if self._state is not OVER and (self._pending or not self._outbox.empty):
            self._quiet = self._loop.create_future()
            try:
                await self._quiet
            finally:
                self._quiet = None
        return not self._pending and self._outbox.empty

    def close(self) -> None:
        """Close once everything is sent."""
        if self._state is CONGESTED:
            self._state = OPEN  # it is sent, or lost: there is no later
        self.flush()
        self._end()
        self.link.close()

    def _encode(self, item: Item, now: float, together: Acknowledgement | None) -> bytes:
        """Return what to send for `item`, whose answer is pending from now on; nothing if it is no longer wanted."""
        if not isinstance(item, Call):
            return self._encode_other(item, now, together)
        call = item
        # The caller of `run` must have its return value before the call ends: what is not written ends in a later turn.
        if call.withdrawn:
            self._loop.call_soon(call.unwritten)
            return b""
        script, keys = call.script, call.keys
        try:
            data = pack(("EVALSHA", script.sha, len(keys), *keys, *call.args))
        except Exception as error:
            failure = BackendError(call.name, f"{call.doing} cannot be put into bytes: {error}")
            failure.__cause__ = error
            self._loop.call_soon(call.end, failure)
            return b""
        if script.sha not in self.scripts.known:
            if self.scripts.load_first(script.sha):
                self._pending.append(Loaded(self.scripts, script.sha))
                data = pack((b"SCRIPT", b"LOAD", script.lua)) + data
            elif self.scripts.send_text(script.sha):
                data = pack(("EVAL", script.lua, len(keys), *keys, *call.args))
        self._pending.append(call if together is None else together.of(call))
        call.refused = self._refused
        call.sent_at = now
        call.writes += 1
        return data

    def _encode_asking(self, call: Call[Any], now: float, together: Acknowledgement | None) -> bytes:
        """As `_encode` does; ASKING covers only the next command, so the script goes with its text."""
        if call.withdrawn:
            self._loop.call_soon(call.unwritten)
            return b""
        self._pending.append(Asked(call))
        self._pending.append(call if together is None else together.of(call))
        call.refused = self._refused
        call.sent_at = now
        call.writes += 1
        return pack((b"ASKING",)) + pack(("EVAL", call.script.lua, len(call.keys), *call.keys, *call.args))

    def _encode_other(
        self,
        item: Subscribe | Unsubscribe | Leave | Authenticate | Asking,
        now: float,
        together: Acknowledgement | None,
    ) -> bytes:
        if isinstance(item, Asking):
            return self._encode_asking(item.request, now, together)
        if isinstance(item, Authenticate):
            self._pending.append(Authenticated())
            return pack((b"AUTH", item.user, item.password))
        if isinstance(item, Unsubscribe):
            self._pending.append(Confirmation(b"unsubscribe", item.channel, self._channels, None))
            return pack((b"UNSUBSCRIBE", item.channel))
        listener = item.listener
        if isinstance(item, Leave):
            nonce = next(self._nonces)
            self._pending.append(Departure(nonce, listener, self._channels, self._pending))
            return pack((b"SUNSUBSCRIBE", listener.channel)) + pack((b"PING", nonce))
        if not self._channels.has(listener):
            return b""
        kind = b"ssubscribe" if listener.sharded else b"subscribe"
        self._pending.append(Confirmation(kind, listener.channel, self._channels, listener))
        return pack((kind.upper(), listener.channel))

    def _ask_again(self, together: Acknowledgement) -> None:
        assert self._assurance is not None
        self._pending.append(together)
        self._pending.append(together)
        if self._state is not OVER:  # otherwise its requests are asked about, like all that were not answered
            self._send(self._assurance.question(again=True))

    def _send(self, data: bytes) -> None:
        try:
            self.link.write(data)
        except Exception as error:
            self.abandon(error)
        else:
            if self._state is not OVER:
                self._state = CONGESTED if self.link.protocol.paused else OPEN

    def _resumed(self) -> None:
        if self._state is CONGESTED:
            self._state = OPEN
        if not self._outbox.empty:
            self._schedule()

    def _flush_turn(self) -> None:
        self._scheduled = False
        self.flush()

    def _receive(self, reply: object) -> None:
        if type(reply) is PushNotification:
            if reply[0] == b"message":  # in few steps: others wait for the task that is granted the lock
                self._channels.deliver(reply[1], reply[2])
                return
            if not self.replies.receive(reply):
                if reply[0] == b"smessage":
                    self._channels.deliver(reply[1], reply[2], sharded=True)
                elif reply[0] == b"sunsubscribe":
                    self._channels.end(reply[1])
                return
        elif self._pending:
            self._pending.popleft().answer(reply)
        else:
            self.replies.receive(reply)
        self._heartbeat.heard = True
        if self._quiet is not None:
            self._note_quiet()
        if self._assurance is not None and not self._outbox.empty:
            self.wake()

    def abandon(self, cause: Exception) -> None:
        """Lose the connection."""
        if self._state is not OVER:
            self._end()
            if not self._loop.is_closed():
                self.link.reset()
                self._loop.call_soon(self._lost, cause)

    def _interrupted(self, items: Sequence[Item]) -> None:
        """A signal handler raised, for example by `sys.exit()`: it is unknown which of `items` were written, so all
        requests are repeated on another connection, if their makers want that.
        """
        written: set[int] = set()
        for expected in self._pending:
            written.update(map(id, expected.requests if isinstance(expected, Acknowledgement) else (expected,)))
        for item in items:
            request = item.request if isinstance(item, Asking) else item
            if isinstance(request, Call) and id(request) not in written:
                self._outbox.put(request)
        self.abandon(ConnectionError("the process was interrupted while it wrote a request"))

    def _end(self) -> None:
        self._state = OVER
        self._heartbeat.stop()
        self._note_quiet()

    def _note_quiet(self) -> None:
        quiet = self._quiet
        if (
            quiet is not None
            and not quiet.done()
            and (self._state is OVER or (self._outbox.empty and not self._pending))
        ):
            quiet.set_result(None)

    def _waiting(self) -> bool:
        return bool(self._pending)

    def _ping(self) -> None:
        self._heartbeat.heard = True
        nonce = next(self._nonces)
        self._pending.append(Echo(nonce))
        self._send(pack((b"PING", nonce)))

    def _overdue(self) -> None:
        if self._quiet is None:
            self.abandon(TimeoutError(f"no answer for {format_seconds(self._timeout)} s"))
        elif not self._quiet.done():
            self._quiet.set_result(None)  # it is closed in order: what the kernel has may still arrive, and should
