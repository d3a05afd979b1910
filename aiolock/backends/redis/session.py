"""The life of one connection: writes what waits in the outbox, and reads until it is gone."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Sequence

from ...clock import Clock
from ...errors import BackendError
from .channels import Channels, Subscribe, Unsubscribe
from .connection import Link, pack
from .heartbeat import Heartbeat
from .outbox import Item, Outbox
from .push import Push
from .replicas import Replicas
from .replies import Acknowledgement, Confirmation, Echo, Loaded, Replies, Scripts
from .requests import Request

logger: logging.Logger = logging.getLogger("aiolock.redis")

ENOUGH = 32
"""Calls of one turn of the loop that are written before its end: the server works on them while more are made."""


class Session:
    """Writes what was put into the outbox: at once if nothing is on its way, else what is made in a turn of the loop
    together.

    Args:
        link: connected and greeted.
        outbox: what to write; shared with the sessions before and after.
        channels: where messages go; shared likewise.
        clock: stamps calls.
        timeout: seconds in which the server must answer.
        replicas: who must acknowledge what is written; then there is one write at a time, never before the end of a
            turn, and what is called meanwhile leaves in the next. None for nobody.
    """

    def __init__(
        self,
        link: Link,
        outbox: Outbox,
        channels: Channels,
        clock: Clock,
        timeout: float,
        replicas: Replicas | None = None,
    ) -> None:
        self.link = link
        self.replies: Replies = Replies(channels)
        self._places = self.replies.places
        self.scripts: Scripts = Scripts()
        self._outbox = outbox
        self._channels = channels
        self._clock = clock
        self._timeout = timeout
        self._replicas = replicas
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._nonces = (f"{secrets.token_hex(8)}:{number}".encode() for number in itertools.count())
        self._cause: Exception | None = None
        self._over = False
        self._quiet: asyncio.Future[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self._heartbeat = Heartbeat(timeout, self._waiting, self._ping, self._overdue)

    def put(self, item: Item) -> None:
        """Write `item` now, or with the others that wait."""
        if self._places or not self._outbox.empty or self._replicas is not None or self._over or self.link.gone():
            waiting = self._outbox.put(item)
            if not self._scheduled:
                self.wake()
            elif waiting >= ENOUGH and self._replicas is None:
                self.flush()
        else:
            self._heartbeat.heard = True
            data = self._spell(item, self._clock.now(), None)
            if data:
                self._send(data)

    def put_off(self, item: Item) -> None:
        """Write `item` at the end of this turn of the loop: not in the way of whoever was waked by the last answer."""
        self._outbox.put(item)
        self._schedule()

    def wake(self) -> None:
        """Something was put into the outbox."""
        if self._places or self._replicas is not None:
            self._schedule()
        elif not self._scheduled:
            self.flush()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush_turn)

    async def run(self) -> Exception:
        """Read until the connection is lost, and say why. It is abandoned then.

        Cancellation: stops; closing is up to the caller.
        """
        try:
            error = await self.link.pump(self._receive)
            self.link.reset()
            return self._cause or error
        finally:
            self._end()

    def flush(self) -> None:
        """Write the outbox now, in one piece."""
        if self._outbox.empty or self._draining is not None or self._over or self.link.gone():
            return
        if not (self._places and self._replicas is not None):
            self._write(self._outbox.take())

    def _write(self, items: Sequence[Item]) -> None:
        if not self._places:
            self._heartbeat.heard = True
        now = self._clock.now()
        together = None if self._replicas is None else Acknowledgement(self._replicas)
        data = b"".join([self._spell(item, now, together) for item in items])
        if self._replicas is not None and together:
            data += self._replicas.question()
            self._places.append(together)
            self._places.append(together)
        if data:
            self._send(data)
        else:
            self._note_quiet()

    async def quiet(self, timeout: float) -> None:
        """Wait until everything is written and answered, or the connection is gone; `timeout` seconds at most."""
        self.wake()
        if self._over or (self._outbox.empty and not self._places):
            return
        self._quiet = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._quiet,), timeout=timeout)

    def close(self) -> asyncio.Task[None] | None:
        """Close once all is sent; what is left to wait for."""
        self.flush()
        self._end()
        self.link.close()
        return self._draining

    def _spell(self, item: Item, now: float, together: Acknowledgement | None) -> bytes:
        """What to send for `item`, whose answer has its place from now on; nothing if it is not wanted any more."""
        if not isinstance(item, Request):
            return self._spell_subscription(item)
        call = item.call
        # Whoever calls `run` has it return before he is told the end of his call: so those not written end later.
        if call.withdrawn and call.writes == 0:
            self._loop.call_soon(item.withdraw)
            return b""
        script, keys = call.script, call.keys
        try:
            data = pack(("EVALSHA", script.sha, len(keys), *keys, *call.args))
        except Exception as error:
            failure = BackendError(call.name, f"{item.doing} cannot be put into bytes: {error}")
            failure.__cause__ = error
            self._loop.call_soon(item.settle, failure)
            return b""
        if script.sha not in self.scripts.known and self.scripts.give(script.sha):
            self._places.append(Loaded(self.scripts, script.sha))
            data = pack((b"SCRIPT", b"LOAD", script.lua)) + data
        self._places.append(item if together is None else together.of(item))
        call.sent_at = now
        call.writes += 1
        return data

    def _spell_subscription(self, item: Subscribe | Unsubscribe) -> bytes:
        if isinstance(item, Unsubscribe):
            self._places.append(Confirmation(b"unsubscribe", item.channel, self._channels, None))
            return pack((b"UNSUBSCRIBE", item.channel))
        listener = item.listener
        if not self._channels.has(listener):
            return b""
        self._places.append(Confirmation(b"subscribe", listener.channel, self._channels, listener))
        return pack((b"SUBSCRIBE", listener.channel))

    def _send(self, data: bytes) -> None:
        try:
            congested = self.link.write(data)
        except Exception as error:
            self._abandon(error)
            return
        if congested and self._draining is None:
            self._draining = self._loop.create_task(self._drain(), name="aiolock writer")
            self._draining.add_done_callback(self._drained)

    async def _drain(self) -> None:
        # While the transport has enough to send, calls stay here, where they can still be withdrawn.
        await self.link.drained()

    def _drained(self, draining: asyncio.Task[None]) -> None:
        self._draining = None
        error = asyncio.CancelledError() if draining.cancelled() else draining.exception()
        if error is None:
            self.flush()
        else:
            self._abandon(error if isinstance(error, Exception) else ConnectionError("the writer was cancelled"))

    def _flush_turn(self) -> None:
        self._scheduled = False
        self.flush()

    def _receive(self, reply: object) -> None:
        if self._places and type(reply) is not Push:
            self._places.popleft().answer(reply)
        elif not self.replies.receive(reply):
            return
        self._heartbeat.heard = True
        if self._quiet is not None:
            self._note_quiet()
        if self._replicas is not None and not self._outbox.empty:
            self.wake()

    def _abandon(self, cause: Exception) -> None:
        """Lose the connection; the reader notices and ends."""
        if not self._over:
            self._cause = cause
            self._end()
            self.link.reset()

    def _end(self) -> None:
        self._over = True
        self._heartbeat.stop()
        if self._draining is not None:
            self._draining.cancel()
        self._note_quiet()

    def _note_quiet(self) -> None:
        quiet = self._quiet
        if quiet is not None and not quiet.done() and (self._over or (self._outbox.empty and not self._places)):
            quiet.set_result(None)

    def _waiting(self) -> bool:
        return bool(self._places)

    def _ping(self) -> None:
        self._heartbeat.heard = True
        nonce = next(self._nonces)
        self._places.append(Echo(nonce))
        self._send(pack((b"PING", nonce)))

    def _overdue(self) -> None:
        self._abandon(TimeoutError(f"no answer for {self._timeout:g} s"))
