"""How a process asks for a name that has no queue of processes: several servers decide, or others share it."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import BackendError
from ...scripts.outcomes import Refused
from ..runtime import Runtime
from ..scheduler import NEVER
from .queue_entry import QueueEntry
from .wait import IDLE

if TYPE_CHECKING:
    from ...backends.turnstile import Turn
    from .local_queue import LocalQueue

JITTER = 0.01
"""Seconds over which processes that wait for the same expiry spread their attempts."""
YIELD_PAUSE = 0.05
"""Seconds for which a process leaves a name to others after `handoff_limit` hand-offs in a row."""
NOBODY_KNOWN = Refused(0, 0, "")
"""Others want a name: no server has said which of them has it."""
STUCK = 1.5
"""Seconds after which one asks without having the turn: who has it may be unable to ask. Longer than a turn lasts."""
WATCH_AFTER = 0.1
"""Seconds after which a hold is watched: a shorter one is not worth a subscription."""


class ReleaseListener:
    """Listens on a name's channel while a task waits. A manager has one for each name: its gate's, or its latch's.

    Args:
        runtime: the manager's.
        channel: announces the name's releases.
        is_own: whether an owner was of this process, which continued when its release was written.
        signal: called when the name may be free.
    """

    __slots__ = ("_channel", "_confirmed", "_is_own", "_runtime", "_signal")

    def __init__(
        self, runtime: Runtime, channel: str, is_own: Callable[[str], bool], signal: Callable[[], None]
    ) -> None:
        self._runtime = runtime
        self._channel = channel
        self._is_own = is_own
        self._signal = signal
        self._confirmed: asyncio.Future[None] | None = None  # while it listens

    def listen(self) -> None:
        """Listen for releases; a confirmation counts as one. Does nothing if this manager polls."""
        if self._confirmed is None and self._runtime.waiting.told:
            self._confirmed = self._runtime.backend.subscribe(self._channel, self._on_message)
            self._confirmed.add_done_callback(self._on_confirmed)

    def stop(self) -> None:
        """Stop listening."""
        if self._confirmed is not None:
            self._confirmed = None
            self._runtime.backend.unsubscribe(self._channel)

    def _on_message(self, payload: str | BackendError | None) -> None:
        if isinstance(payload, BackendError):  # refused after a reconnect
            self._runtime.fall_back(payload)
        elif payload is not None:
            who, _, fence = payload.partition(" ")
            if fence:
                self._runtime.fences.told(fence)
            if self._is_own(who):
                return
        self._signal()

    def _on_confirmed(self, confirmed: asyncio.Future[None]) -> None:
        error = None if confirmed.cancelled() else confirmed.exception()
        if not isinstance(error, BackendError):
            return
        if not error.transient:
            self._runtime.fall_back(error)
        if confirmed is self._confirmed:  # not an earlier one, cancelled before it was confirmed
            self.stop()  # a waiter asks for it again after its next attempt
            if not error.transient:
                self._signal()  # from now on it polls


class Race:
    """Asks when a release is announced, when the holder's time is over, or after a while.

    A release is followed by the request of the next task of the process, in one write. Waiters elsewhere cannot be
    counted, so the process pauses from time to time, as if there were some.

    Args:
        queue: the waiters it asks for.
        verify: asks for what this process holds, if the channel also announces ends by force; otherwise None.
    """

    __slots__ = ("_listener", "_queue", "_signalled", "_streak", "_turn", "_verify", "_yield_until", "due")

    def __init__(self, queue: LocalQueue, verify: Callable[[], None] | None = None) -> None:
        self._queue = queue
        self._verify = verify
        self.due: float = NEVER
        self._signalled: set[QueueEntry] = set()  # the name may have become free since their last attempts were written
        self._listener: ReleaseListener | None = None
        self._turn: Turn | None = None
        self._streak = 0  # hand-offs inside the process since it last paused
        self._yield_until = -math.inf  # clock time until which the name is left to other processes

    def begin(self, entry: QueueEntry) -> None:
        """Make a first attempt: at once, except for the time that is left to others."""
        if self._queue.runtime.clock.now() < self._yield_until:
            entry.ask_at(self._yield_until)
        else:
            self.ask(entry)

    def ask(self, entry: QueueEntry) -> None:
        """Try, or try again; where several processes do, who has the turn, or has waited for it long enough."""
        self._signalled.discard(entry)
        turnstile, name = self._queue.runtime.backend.abilities.turnstile, self._queue.calls.name
        if self._turn is None and turnstile is not None and entry.asker.queues and turnstile.stands_before(name):
            self._turn = turnstile.line_up(name, self._passed)
            self._queue.replies += 1  # it need not ask to know that another is before it
            if not entry.refused:
                entry.waits().refused(NOBODY_KNOWN)
            entry.ask_at(self._queue.runtime.clock.now() + STUCK + turnstile.spread() * random.random())
        else:
            entry.ask()

    def _ask_soon(self, entry: QueueEntry) -> None:
        """At once, if no one else does: of several that ask at the same time none would get a majority."""
        runtime, turn = self._queue.runtime, self._turn
        turnstile = runtime.backend.abilities.turnstile
        if turnstile is None or turn is None or turn.held is not None:
            self.ask(entry)
        else:
            in_line = 0.0 if turn.passed else STUCK
            due = runtime.clock.now() + in_line + turnstile.spread() * random.uniform(0.2, 1)
            entry.ask_at(min(due, entry.due))  # else those that release more often than that would keep it from asking

    def _passed(self) -> None:
        for entry in list(self._queue.entries):
            if entry.state is IDLE:
                self.ask(entry)

    def end_turn(self) -> None:
        """Let the next process ask."""
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.end()

    def refused(self, entry: QueueEntry, refusal: Refused) -> None:
        """Another has it: wait for a signal, or for a time. Undo what some servers granted."""
        self._queue.runtime.contended(self._queue.calls.name)
        if refusal.spent:
            self._queue.renew_owner(entry, asks=False)
        split = refusal.spent and not refusal.pttl
        if not split:
            entry.waits().failures = 0
        if entry in self._signalled:
            self._ask_soon(entry)
            return
        if split:
            entry.pause()
        else:
            entry.ask_at(self._queue.runtime.clock.now() + self._pause(entry, refusal.pttl))
        self._listen()

    def signal(self) -> None:
        """The name may be free, also because a hold of this process was ended by force."""
        entries = list(self._queue.entries)
        self._signalled = set(entries)
        for entry in entries:
            if entry.state is IDLE:
                self._ask_soon(entry)
        if self._verify is not None:
            self._verify()

    def held(self) -> None:
        """This process has the name: if that lasts, listen for an end by force."""
        self.end_turn()
        if self._verify is not None and self.due == NEVER:
            runtime = self._queue.runtime
            runtime.scheduler.schedule(self, runtime.clock.now() + WATCH_AFTER)

    def on_due(self, now: float, late: float) -> None:
        """See `held()`."""
        self._listen()  # the confirmation is a signal, and asks for what was missed so far

    def released(self) -> None:
        """This process released it: if another of its tasks waits, it is next, or leaves the name to others first."""
        self.end_turn()
        queue = self._queue
        if not queue.waiters:
            return
        self._streak += 1
        if self._streak > queue.runtime.limits.handoff_limit:
            self._streak = 0
            self._yield_until = queue.runtime.clock.now() + YIELD_PAUSE

    def stop(self) -> None:
        """No one waits any more, and nothing is watched."""
        self.end_turn()
        self._signalled.clear()
        self._queue.runtime.scheduler.forget(self)
        if self._listener is not None:
            self._listener.stop()

    def _listen(self) -> None:
        queue = self._queue
        if self._listener is None:
            self._listener = ReleaseListener(
                queue.runtime, queue.calls.free_channel, queue.runtime.binding.is_own, self.signal
            )
        self._listener.listen()

    def _pause(self, entry: QueueEntry, pttl: int) -> float:
        runtime, spread = self._queue.runtime, random.uniform(0, JITTER)
        left = pttl / 1000 + 0.001 if pttl >= 0 else math.inf
        pause = min(runtime.limits.recheck, left) + spread
        return runtime.waiting.pause(pause, entry.waits().attempts)
