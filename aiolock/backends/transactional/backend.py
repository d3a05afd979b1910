"""A backend over a store with transactions: what is asked for during one transaction is decided in the next. Needs no
task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...clock import Clock, SystemClock, backoff, format_seconds
from ...errors import AiolockError, BackendError, ConfigurationError
from ...event_log import log_event
from ...events import Disconnected, Event, Reconnected
from ...log import Log
from ...scripts.base import Call, resolve
from ..base import Abilities, Backend, Wake, nothing
from .engine import Engine, Outcome, Unavailable

logger: Log = Log("aiolock.redis")

BATCH = 200
"""Calls of one transaction at most: while it runs, no other process decides anything."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
"""Seconds between two attempts, while the store cannot be used: the first, and at most."""


class TransactionalBackend(Backend):
    """Hands calls on when the engine can take them, and repeats what got no answer.

    Args:
        engine: the store.
        clock: stamps calls.
        request_timeout: seconds that closing may take.
        tell: told when the store cannot be used any more, and when it can again.

    Attributes:
        unreachable: why the store cannot be used, as the last attempt found; None while it can.
    """

    db = 0
    unreachable: AiolockError | None = None

    def __init__(
        self,
        engine: Engine,
        clock: Clock | None = None,
        request_timeout: float = 5.0,
        tell: Callable[[Event], None] = log_event,
    ) -> None:
        self.abilities: Abilities = engine.abilities
        self.clock: Clock = clock or SystemClock()
        self._engine = engine
        self._timeout = request_timeout
        self._tell = tell
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reconnected: Callable[[], None] = nothing
        self._begin()

    def _begin(self) -> None:
        self._waiting: deque[Call[Any]] = deque()
        self._wakes: dict[str, Wake] = {}
        self._asked = 0  # calls that the engine has, and has not answered
        self._failures = 0  # in a row
        self._away_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._quiet: asyncio.Future[None] | None = None
        self.unreachable = None

    def __repr__(self) -> str:
        return f"<TransactionalBackend {self._engine.address} {'closed' if self._loop is None else 'open'}>"

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        if self._loop is not None:
            if not self._loop.is_closed():
                raise ConfigurationError("", "this backend is already open: give each manager a backend of its own")
            self._loop = None
            await self._engine.aclose()  # its loop was closed before it was
        self._begin()
        try:
            async with asyncio.timeout(timeout):
                await self._engine.open(self._deliver)
        except Unavailable as why:
            raise why.error from why.__cause__
        except TimeoutError:
            await self._engine.aclose()
            text = f"{self._engine.address} could not be opened within {format_seconds(timeout)} s"
            raise BackendError("", text, transient=True) from None
        except BaseException:
            await self._engine.aclose()
            raise
        self._loop = asyncio.get_running_loop()
        self._reconnected = reconnected

    def post(self, call: Call[Any]) -> None:
        loop = self._loop
        if loop is None:
            asyncio.get_running_loop().call_soon(call.end, self._closed(call.name))
            return
        self._waiting.append(call)
        if self.unreachable is not None:
            loop.call_soon(call.unreachable, self.unreachable)
        elif self._timer is None and not self._engine.busy:
            self._transact()

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        assert self._loop is not None, "open() comes first"
        future: asyncio.Future[None] = self._loop.create_future()
        self._wakes[channel] = wake
        self._engine.listen(channel, partial(self._listening, channel, wake, future))
        return future

    def unsubscribe(self, channel: str) -> None:
        if self._wakes.pop(channel, None) is not None:
            self._engine.unlisten(channel)

    async def aclose(self) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            if loop is asyncio.get_running_loop():
                await self._finish(loop)
        finally:
            self._loop = None
            self._wakes.clear()
            if self._timer is not None:
                self._timer.cancel()
            left, self._waiting = self._waiting, deque()
            for call in left:
                call.end(self._closed(call.name))
            await self._engine.aclose()

    async def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until all is decided, or cannot be: for an attempt that runs, or one more."""
        until, hurried = loop.time() + self._timeout, False
        while self._asked or any(not call.withdrawn for call in self._waiting):
            if self._timer is not None and self.unreachable is not None:  # it pauses
                if hurried:
                    return
                hurried = True
                self._timer.cancel()
                self._transact()
            self._quiet = loop.create_future()
            await asyncio.wait((self._quiet,), timeout=until - loop.time())
            if not self._quiet.done():
                return

    def _closed(self, name: str) -> BackendError:
        return BackendError(name, "the manager was closed", transient=True)

    # Transactions.

    def _transact(self) -> None:
        """Decide what waits."""
        assert self._loop is not None
        self._timer = None
        calls: list[Call[Any]] = []
        now = self.clock.now()
        while self._waiting and len(calls) < BATCH:
            call = self._waiting.popleft()
            if call.withdrawn:
                self._loop.call_soon(call.unwritten)
                continue
            call.sent_at = now
            call.writes += 1
            calls.append(call)
        if not calls and self._away_since is None:
            return
        self._asked += len(calls)
        self._engine.transact(calls, self._decided)

    def _decided(self, calls: Sequence[Call[Any]], outcomes: Sequence[Outcome] | Unavailable) -> None:
        self._asked -= len(calls)
        if self._loop is None:  # closed meanwhile: nobody waits for long
            outcomes = outcomes if not isinstance(outcomes, Unavailable) else [self._closed("")] * len(calls)
        if isinstance(outcomes, Unavailable):
            self._failed(calls, outcomes)
            return
        for call, outcome in zip(calls, outcomes, strict=True):
            if isinstance(outcome, BackendError):
                call.end(outcome)
            else:
                call.answer(outcome)
        if self._loop is not None and self._away_since is not None:
            self._resume(self._away_since)
        if self._waiting and self._loop is not None:
            self._transact()
        if not self._asked and self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

    def _failed(self, calls: Sequence[Call[Any]], why: Unavailable) -> None:
        assert self._loop is not None
        error = why.error
        kept = []
        for call in calls:
            if call.again(unrun=not why.ran):
                kept.append(call)
            else:
                failure = BackendError(call.name, f"{call.doing} got no answer: {error}", transient=True)
                failure.__cause__ = error
                call.end(failure)
        self._waiting.extendleft(reversed(kept))
        if self._away_since is None:
            self._away_since = self._loop.time()
            self._tell(Disconnected(self._engine.address, error, f"cannot be used ({error})"))
            if why.lost:
                self._timer = self._loop.call_later(0, self._transact)
                return
        self.unreachable = error
        for call in list(self._waiting):
            call.unreachable(error)
        self._timer = self._loop.call_later(backoff(self._failures, FIRST_PAUSE, LONGEST_PAUSE), self._transact)
        self._failures += 1
        if self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

    def _resume(self, since: float) -> None:
        """It can be used again: messages may have been missed, and all that is held may be gone."""
        assert self._loop is not None
        self.unreachable, self._away_since, self._failures = None, None, 0
        self._tell(Reconnected(self._engine.address, self._loop.time() - since))
        try:
            self._reconnected()
        except Exception:
            logger.exception("the callback of a new connection failed")
        for wake in list(self._wakes.values()):
            wake(None)

    # Messages.

    def _deliver(self, channel: str, payload: str | None) -> None:
        wake = self._wakes.get(channel)
        if wake is not None:
            wake(payload)

    def _listening(
        self, channel: str, wake: Wake, future: asyncio.Future[None], why: Unavailable | BackendError | None
    ) -> None:
        mine = self._wakes.get(channel) is wake
        if why is None:
            if mine:
                wake(None)
            if not future.done():
                future.set_result(None)
            return
        if mine:
            self.unsubscribe(channel)
        if isinstance(why, Unavailable):  # it may be asked for again
            failure = BackendError("", str(why.error), transient=True)
            failure.__cause__ = why.error
            why = failure
        resolve(future, why)
