"""A waiter's entry in the queue that the server keeps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..errors import BackendError
from ..scripts.base import Part
from ..scripts.outcomes import Granted, Missing, Queued, Renewed
from .calls import Batch, QueueCalls
from .release import PendingRelease
from .runtime import Runtime
from .waiter import Grant, Waiter

if TYPE_CHECKING:
    from .watchdog import Renewable


class EntryListener(Protocol):
    """The gate, as an entry sees it."""

    runtime: Runtime

    def granted(self, waiter: Waiter, grant: Grant) -> None:
        """The waiter is in."""

    def requeue(self, waiter: Waiter) -> None:
        """The entry is void: ask anew."""


FINAL_REFRESH = 0.1
"""Seconds before its timeout at which a waiter asks a last time; a quarter of the whole wait if that is less."""


class QueueEntry:
    """Kept alive by the watchdog in batches, until it is granted or given up.

    A grant is told to the manager's channel. It came after the request was written whose answer last was "queued", so
    that moment is what the deadline counts from. A message that is lost is made up for by the next refresh. Nobody
    tells that a holder has expired: whoever is first in the queue asks then.

    Args:
        gate: the name's gate.
        waiter: whose entry it is.
    """

    __slots__ = ("_attempts", "_free_at", "_gate", "_sent_at", "_serial", "_undo", "called", "due", "owner", "waiter")

    def __init__(self, gate: EntryListener, waiter: Waiter) -> None:
        self._gate = gate
        self._free_at = math.inf  # clock time at which a holder expires, if this one is first
        self._attempts = 0
        self._serial = 0
        self._sent_at = -math.inf
        self._undo: PendingRelease | None = None
        self.waiter: Waiter = waiter
        self.owner: str = waiter.owner
        self.called: bool = False  # its turn has come, and it must ask for it by a call of its own
        self.due: float = math.inf
        gate.runtime.queue_entries[self.owner] = self

    def queued(self, outcome: Queued, sent_at: float) -> None:
        """The server said so, answering what was written at `sent_at`."""
        self._serial, self._sent_at = outcome.serial, sent_at
        first = outcome.rank == 1 and outcome.pttl > 0
        # A refresh written then takes as long to the server as the one that learnt this.
        self._free_at = sent_at + (outcome.pttl + 1) / 1000 if first else math.inf
        self.waiter.queue_number = outcome.queue_number
        self.waiter.refusal, self.waiter.failure = outcome, None
        self._attempts += 1
        self.called = False
        self._gate.runtime.heard(outcome.fence)
        if outcome.pttl == 0:
            self.verify()  # more come and go than one request may let in or end
        else:
            self._schedule()

    def told(self, serial: int, outcome: Granted) -> None:
        """A message says that the owner was granted; one that is older than the last answer is void."""
        if self.waiter.queue_entry is not self or serial <= self._serial:
            return
        if self._gate.runtime.backend.checked:
            self._call()
            return
        runtime, policy = self._gate.runtime, self.waiter.policy
        provisional = outcome.pttl < policy.ttl_ms
        margin = min(policy.margin, outcome.pttl / 10_000) if provisional else policy.margin
        grant = Grant(outcome, self._sent_at, margin, provisional)
        if runtime.clock.now() >= grant.deadline:
            # This loop stood still: the server may have passed on meanwhile, over others of its waiters, too.
            runtime.verify_queue_entries()
            return
        if provisional:
            # Before the waiter runs: its block may begin with a blocking call.
            confirmation = _Confirmation(self._gate, self.waiter, grant)
            batch, part = confirmation.part()
            runtime.watchdog.renew(batch, [(confirmation, part)])
        self._gate.granted(self.waiter, grant)

    def verify(self) -> None:
        """Ask the server at once: a message may have been missed."""
        runtime = self._gate.runtime
        runtime.watchdog.schedule(self, runtime.clock.now())

    def leave(self, undo: PendingRelease | None = None) -> None:
        """It is granted, or given up by `undo`."""
        self._undo = undo
        self._gate.runtime.watchdog.forget(self)
        self._gate.runtime.queue_entries.pop(self.owner, None)

    # As the watchdog sees it.

    def on_due(self, now: float, late: float) -> Renewable:
        return self

    def part(self) -> tuple[Batch, Part]:
        waiter, floor = self.waiter, self._gate.runtime.floor
        calls = cast(QueueCalls, waiter.calls)
        return calls.enter, calls.refresh(self.owner, waiter.policy.ttl_ms, floor, waiter.metadata, waiter.queue_number)

    def judged(self, outcome: Any, sent_at: float) -> None:
        if self.waiter.queue_entry is not self:
            return  # what ended it was written behind this request
        if isinstance(outcome, Queued):
            self.queued(outcome, sent_at)
        elif isinstance(outcome, Granted) and self._gate.runtime.backend.checked:
            self._call()
        elif isinstance(outcome, Granted):
            self._gate.granted(self.waiter, Grant(outcome, sent_at, self.waiter.policy.margin))
        else:
            self._gate.requeue(self.waiter)

    def unknown(self, error: BackendError) -> None:
        if self.waiter.queue_entry is not self:
            self._taint_successor()
            return
        self.waiter.tainted = True
        if error.transient:
            self._schedule()
        else:
            self._gate.requeue(self.waiter)

    def _call(self) -> None:
        self.called = True
        self.waiter.retry_at = -math.inf
        self.waiter.poke()

    def _taint_successor(self) -> None:
        """What this entry has become ends the owner, and a request of it that died may still come to the server."""
        hold = self._gate.runtime.holds.get(self.owner)
        if self._undo is not None:
            self._undo.taint()  # which may be unwritten yet
        elif hold is not None:
            hold.tainted = True
        elif self.waiter.owner == self.owner:
            self.waiter.tainted = True

    def _schedule(self) -> None:
        runtime = self._gate.runtime
        now = runtime.clock.now()
        pause = min(runtime.limits.liveness, self.waiter.policy.ttl) / 3
        if runtime.poll is not None:
            pause = min(pause, runtime.poll.pause(self._attempts))
        # With the manager's other waiters, in one request.
        due = min(runtime.next_refresh(now + pause / 2, now + pause), self._free_at)
        if now < self.waiter.final_refresh:
            due = min(due, self.waiter.final_refresh)
        runtime.watchdog.schedule(self, due)


class _Confirmation:
    """The first renewal of a grant that is provisional, written in the turn of its message.

    Args:
        gate: the name's gate.
        waiter: who was granted.
        grant: what.
    """

    __slots__ = ("_gate", "_grant", "_owner", "_waiter")

    def __init__(self, gate: EntryListener, waiter: Waiter, grant: Grant) -> None:
        self._gate = gate
        self._waiter = waiter
        self._owner = waiter.owner
        self._grant = grant

    def part(self) -> tuple[Batch, Part]:
        calls, ttl_ms = self._waiter.calls, self._waiter.policy.ttl_ms
        return calls.batch, calls.renewal(self._owner, self._grant.outcome.fence, ttl_ms)

    def judged(self, outcome: Any, sent_at: float) -> None:
        hold, waiter, grant = self._gate.runtime.holds.get(self._owner), self._waiter, self._grant
        if hold is not None:
            hold.judged(outcome, sent_at)
        elif waiter.grant is grant and isinstance(outcome, Renewed):  # the waiter did not run yet
            waiter.grant = Grant(grant.outcome._replace(pttl=outcome.pttl), sent_at, waiter.policy.margin)
        elif waiter.grant is grant and isinstance(outcome, Missing):
            self._gate.requeue(waiter)

    def unknown(self, error: BackendError) -> None:
        hold = self._gate.runtime.holds.get(self._owner)
        if hold is not None:
            hold.unknown(error)
