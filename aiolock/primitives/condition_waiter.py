"""One task that waits for a condition: its place among the waiters on the server."""

from __future__ import annotations

import asyncio
import random

from ..core.runtime import Runtime
from ..core.scheduler import NEVER
from ..errors import AiolockError, BackendError, NotAcquired
from ..scripts.base import Call
from ..scripts.condition import ConditionCalls, Waiting

LOOKS = 3
"""How many of all waiters look at the others each time, on average: in twenty periods one passes without a look."""


class ConditionWaiter:
    """Joins the waiters, sends heartbeats, and learns that it was notified.

    Messages only say that it is worthwhile to ask: the server knows who was notified. If the server has forgotten it, a
    notification may have been missed, and that counts as one. It has no task: answers, messages and the scheduler drive
    it.

    Args:
        runtime: the manager's.
        calls: requests about the condition.

    Attributes:
        joined: done once the server knows it.
        notified: done once it was notified.
    """

    queue_number: int = 0

    def __init__(self, runtime: Runtime, calls: ConditionCalls) -> None:
        loop = asyncio.get_running_loop()
        self.joined: asyncio.Future[None] = loop.create_future()
        self.notified: asyncio.Future[None] = loop.create_future()
        self.due: float = NEVER
        self._runtime = runtime
        self._calls = calls
        self._owner = runtime.binding.new_owner("")
        self._key = calls.kind, self._owner
        self._call: Call[Waiting] | None = None
        self._waiters = 1
        self._again = False  # a message came since it was written
        self._known = False  # by its answer to an earlier request
        self._over = False

    def join(self) -> None:
        """Join the waiters; the request is written now."""
        runtime = self._runtime
        runtime.gates[self._key] = self
        runtime.queue_entries[self._owner] = self
        self._ask()

    def leave(self, passes: bool) -> None:
        """Wait no more.

        Args:
            passes: if it was notified, another is notified instead.
        """
        runtime = self._runtime
        self._over = True
        runtime.scheduler.forget(self)
        runtime.queue_entries.pop(self._owner, None)
        runtime.gates.pop(self._key, None)
        unseen = self._call is not None and self._call.withdraw() and not self._known
        for future in (self.joined, self.notified):
            future.cancel()
        if not unseen:
            # If this is lost, the server counts it as dead after `liveness`, and passes its notification on.
            runtime.backend.post(self._calls.leave(self._owner, passes))
        if runtime.draining is not None:
            runtime.draining()

    # Asking.

    def _ask(self) -> None:
        self._again = False
        joins = not self.joined.done()
        looks = joins or random.random() * self._waiters < LOOKS  # if all did, it would be the square of their number
        call = self._call = self._calls.wait(self._owner, joins, looks, self._runtime.binding.holder)
        call.unanswered = lambda: not self._over
        call.settle, call.away = self._settle, self._away
        self._runtime.backend.post(call)

    def _settle(self, outcome: Waiting | BackendError) -> None:
        self._call = None
        if self._over:
            return
        if isinstance(outcome, BackendError):
            if not outcome.transient or not self.joined.done():
                self._fail(outcome)
                return
        else:
            self._known, self._waiters = True, outcome.waiters
            for future in (self.joined,) if outcome.state == "waiting" else (self.joined, self.notified):
                if not future.done():
                    future.set_result(None)
        if self._again and not self.notified.done():
            self._ask()
        else:
            runtime = self._runtime
            pause = runtime.waiting.pause(min(runtime.limits.liveness / 3, runtime.limits.recheck), 1)
            runtime.scheduler.schedule(self, runtime.clock.now() + pause)

    def _away(self, known: AiolockError) -> None:
        if not self.joined.done():
            self._fail(self._runtime.unanswered(self._calls.name, "waiting for", away=known))

    def _fail(self, error: BaseException) -> None:
        future = self.notified if self._known else self.joined
        if not future.done():
            future.set_exception(error)

    def on_due(self, now: float, late: float) -> None:
        self.signal()

    # As messages see it.

    def verify(self) -> None:
        """A message may have been missed, or says that it was notified."""
        self.signal()

    def want(self) -> None:
        """See `WaitingEntry`: it holds nothing."""

    def revoke(self) -> None:
        """It is never granted anything."""

    def told(self, fence: int) -> None:
        """No message grants it anything."""

    # For the closing manager.

    def signal(self) -> None:
        """It may have been notified: ask, and once more if a request is on its way."""
        if self._over:
            return
        if self._call is None:
            self._runtime.scheduler.forget(self)
            self._ask()
        else:
            self._again = True

    def close(self) -> None:
        name = self._calls.name
        text = f"the condition of lock {name!r} was not notified when its manager was closed; end this task"
        self._fail(NotAcquired(name, text))

    def occupied(self) -> bool:
        return not self._over
