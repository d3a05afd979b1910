"""One latch in one process: its waiters share one subscription and one query at a time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from ..core.runtime import Runtime
from ..core.waiting.race import ReleaseListener
from ..core.waiting.waiter import FINAL_REFRESH
from ..errors import AiolockError, BackendError, NotAcquired, repeated
from ..scripts.base import Call
from ..scripts.latch import LatchState

RETRY = 0.5
"""Seconds until the next query after the server answered with a temporary error."""


class CountCalls(Protocol):
    """Requests about one latch."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def free_channel(self) -> str:
        """The channel that says that it may be open."""

    @property
    def ttl_ms(self) -> int:
        """How long the server keeps it from a query on."""

    def query(self) -> Call[LatchState]: ...


class LatchWatcher:
    """The local side of one latch; the first waiter creates it, the last removes it.

    Messages only say that a query is worthwhile: the server knows the latch's state. It has no task: replies, messages
    and the scheduler drive it.

    Args:
        runtime: the manager's.
        calls: the latch's requests.

    Attributes:
        seen: what the last answered query found; None before the first.
    """

    def __init__(self, runtime: Runtime, calls: CountCalls) -> None:
        self.seen: LatchState | None = None
        self.due: float = math.inf
        self._runtime = runtime
        self._calls = calls
        self._waiters = 0
        self._changes: list[asyncio.Future[None]] = []
        self._refused: BackendError | None = None
        self._listener = ReleaseListener(runtime, calls.free_channel, lambda owner: False, self.signal)
        self._attempts = 0
        self._call: Call[LatchState] | None = None  # the query on its way
        self._again = False  # a message came since it was written

    # For waiters.

    def join(self, calls: CountCalls) -> None:
        """Start waiting; the first waiter starts the queries."""
        if calls.ttl_ms > self._calls.ttl_ms:
            self._calls = calls
        self._waiters += 1
        if self._waiters == 1:
            self._runtime.gates[self._calls.kind, self._calls.name] = self
            self._query()

    def leave(self) -> None:
        """Stop waiting; the last waiter ends everything."""
        self._waiters -= 1
        if self._waiters == 0:
            self._listener.stop()
            self._runtime.scheduler.forget(self)
            if self._call is not None:
                self._call.withdraw()
            key = self._calls.kind, self._calls.name
            if self._runtime.gates.get(key) is self:
                del self._runtime.gates[key]
        if self._runtime.draining is not None:
            self._runtime.draining()

    async def change(self, due: float, error: Callable[[], BaseException]) -> None:
        """Sleep until there is news, such as a message; raise `error()` at clock time `due`.

        Raises:
            NotAcquired: the manager closes.
            BackendError: the server refuses the query, or does not answer the first one.
        """
        name = self._calls.name
        if self._runtime.binding.closing:
            raise NotAcquired(name, f"latch {name!r} had not opened when its manager was closed; end this task")
        if self._refused is not None:
            raise repeated(self._refused)
        if self.seen is not None:
            self._listener.listen()
            # A message may have been missed, or denied: look a last time.
            look = due - FINAL_REFRESH
            if self._call is None and self._runtime.clock.now() < look < self.due:
                self._runtime.scheduler.schedule(self, look)
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.append(changed)
        try:
            await self._runtime.within(changed, due, error)
        finally:
            self._changes.remove(changed)

    # For the closing manager.

    def signal(self) -> None:
        """The latch may be open: ask, and once more if a query is on its way."""
        if self._call is None:
            self._query()
        else:
            self._again = True

    def close(self) -> None:
        self._wake()

    def occupied(self) -> bool:
        return self._waiters > 0

    # Asking.

    def _next_query(self, failed: bool) -> float:
        """Clock time of the next query if no message comes until then; each query also refreshes the latch's expiry."""
        pause = min(self._runtime.limits.recheck, self._calls.ttl_ms / 3000)
        pause = self._runtime.waiting.pause(pause, self._attempts)
        return self._runtime.clock.now() + (min(pause, RETRY) if failed else pause)

    def _query(self) -> None:
        self._again = False
        self._attempts += 1
        call = self._call = self._calls.query()
        call.unanswered = lambda: self._waiters > 0
        call.settle, call.away = self._settle, self._away
        self._runtime.backend.post(call)

    def _settle(self, result: LatchState | BackendError) -> None:
        self._call = None
        if self._waiters == 0:
            return
        failed = isinstance(result, BackendError)
        if isinstance(result, LatchState):
            self.seen = result
        elif self.seen is None or not result.transient:
            self._refused = result
        self._wake()
        if self._refused is not None or (self.seen is not None and self.seen.left == 0):
            return
        if self._again and not failed:
            self._query()
        else:
            self._runtime.scheduler.schedule(self, self._next_query(failed))

    def _away(self, known: AiolockError) -> None:
        if self.seen is None:
            self._refused = self._runtime.unanswered(self._calls.name, "waiting for", away=known)
            self._wake()

    def on_due(self, now: float, late: float) -> None:
        self.signal()

    def _wake(self) -> None:
        for changed in self._changes:
            if not changed.done():
                changed.set_result(None)
