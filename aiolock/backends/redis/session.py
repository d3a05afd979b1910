"""The life of one connection: writes what waits in the outbox, and reads until it is gone."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Sequence
from typing import Any

from ...clock import Clock
from ...errors import BackendError
from .channels import Channels, Subscribe
from .connection import Link, pack
from .heartbeat import Heartbeat
from .outbox import Item, Outbox
from .replicas import Replicas
from .replies import Acknowledgement, Confirmation, Echo, Loaded, Replies, Scripts
from .requests import Request

logger: logging.Logger = logging.getLogger("aiolock.redis")


class Session:
    """Writes what was put into the outbox: at once if nothing is on its way, else all of a turn of the loop together.

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
        if self._places or self._replicas is not None or self._outbox or not self._writable:
            self._outbox.put(item)
            self.wake()
        else:
            self._write((item,))

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
        if self._writable and self._outbox and not (self._places and self._replicas is not None):
            self._write(self._outbox.take())

    @property
    def _writable(self) -> bool:
        return self._draining is None and not self._over and not self.link.gone()

    def _write(self, items: Sequence[Item]) -> None:
        if not self._places:
            self._heartbeat.heard = True
        chunks: list[bytes] = []
        now = self._clock.now()
        together = None if self._replicas is None else Acknowledgement(self._replicas)
        for item in items:
            if isinstance(item, Request):
                self._add_request(item, chunks, now, together)
            elif isinstance(item, Subscribe):
                self._add_subscribe(item, chunks)
            else:
                chunks.append(pack((b"UNSUBSCRIBE", item.channel)))
                self._places.append(Confirmation(b"unsubscribe", item.channel, self._channels, None))
        if self._replicas is not None and together:
            chunks.append(self._replicas.question())
            self._places.append(together)
            self._places.append(together)
        if chunks:
            self._send(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        else:
            self._note_quiet()

    async def quiet(self, timeout: float) -> None:
        """Wait until everything is written and answered, or the connection is gone; `timeout` seconds at most."""
        self.wake()
        if self._over or not (self._outbox or self._places):
            return
        self._quiet = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._quiet,), timeout=timeout)

    def close(self) -> asyncio.Task[None] | None:
        """Close once all is sent; what is left to wait for."""
        self.flush()
        self._end()
        self.link.close()
        return self._draining

    def _add_subscribe(self, item: Subscribe, chunks: list[bytes]) -> None:
        if self._channels.has(item.listener):
            chunks.append(pack((b"SUBSCRIBE", item.listener.channel)))
            self._places.append(Confirmation(b"subscribe", item.listener.channel, self._channels, item.listener))

    def _add_request(
        self, request: Request[Any], chunks: list[bytes], now: float, together: Acknowledgement | None
    ) -> None:
        call = request.call
        # Whoever calls `run` has it return before he is told the end of his call: so those not written end later.
        if call.withdrawn and call.writes == 0:
            self._loop.call_soon(request.withdraw)
            return
        script, keys = call.script, call.keys
        try:
            args = [f"{arg:d}" if type(arg) is int else arg for arg in call.args]
            data = pack(("EVALSHA", script.sha, f"{len(keys)}", *keys, *args))
        except Exception as error:
            failure = BackendError(call.name, f"{request.doing} cannot be put into bytes: {error}")
            failure.__cause__ = error
            self._loop.call_soon(request.settle, failure)
            return
        if self.scripts.give(script.sha):
            chunks.append(pack((b"SCRIPT", b"LOAD", script.lua)))
            self._places.append(Loaded(self.scripts, script.sha))
        chunks.append(data)
        self._places.append(request if together is None else together.of(request))
        call.sent_at = now
        call.writes += 1

    def _send(self, data: bytes) -> None:
        try:
            self.link.write(data)
        except Exception as error:
            self._abandon(error)
            return
        if self._draining is None and self.link.congested:
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
        if self.replies.receive(reply):
            self._heartbeat.heard = True
            if self._quiet is not None:
                self._note_quiet()
            if self._replicas is not None and self._outbox:
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
        if quiet is not None and not quiet.done() and (self._over or not (self._outbox or self._places)):
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
