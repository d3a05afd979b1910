"""One name in one process: who holds, who waits, who may talk to Redis. Acquire and release both pass it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from typing import Any, cast

from ..errors import NotAcquired
from ..log import Log
from ..scripts.base import Call, Ending
from ..scripts.outcomes import Queued, Refused, Released
from .calls import Calls, Contention, QueueCalls
from .ear import Ear
from .handoff import Handoff
from .hold import Hold
from .lease import Lease
from .policy import Policy
from .queue_entry import QueueEntry
from .release import PendingRelease, ReleaseResult
from .runtime import Runtime
from .waiter import Grant, Waiter

logger: Log = Log("aiolock.gate")

JITTER = 0.01
"""Seconds over which processes that wait for the same expiry spread their attempts."""


class Gate:
    """The local side of one name; made on first use, gone when nobody uses it.

    Args:
        runtime: the manager's.
        calls: requests about the name, for what does not depend on an acquisition's weight.
        contention: the primitive's rule.
    """

    __slots__ = (
        "_busy",
        "_ear",
        "_ended",
        "_handoff",
        "_holds",
        "_key",
        "_warned",
        "answered",
        "calls",
        "contention",
        "runtime",
        "signals",
        "waiters",
        "yield_until",
    )

    def __init__(self, runtime: Runtime, calls: Calls, contention: Contention) -> None:
        self.runtime: Runtime = runtime
        self.calls: Calls = calls
        self.contention: Contention = contention
        self._key = (calls.kind, calls.name)
        self.signals: int = 0
        self.answered: bool = False  # the server has spoken since somebody of this process wanted the lock
        self._holds = 0  # not ended; lost ones too
        self.waiters: dict[Waiter, None] = {}
        self.yield_until: float = -math.inf  # clock time until which the lock is left to other processes
        self._ear: Ear | None = None  # this one and the next made by the first who has to wait
        self._handoff: Handoff | None = None
        self._ended = ""  # the owner whose hold ended last
        self._busy = 0  # slots taken by live holds and by transfers on their way
        self._warned = False

    @classmethod
    def of(cls, runtime: Runtime, calls: Calls, contention: Contention) -> Gate:
        """The gate of a name; a new one if nobody of this process uses it."""
        gate: Any = runtime.gates.get((calls.kind, calls.name))
        known: Gate | None = gate
        return cls(runtime, calls, contention) if known is None else known

    @property
    def ear(self) -> Ear:
        """Hears of releases elsewhere."""
        if self._ear is None:
            self._ear = Ear(self.runtime, self.calls.channels, self._is_own, self.signal)
        return self._ear

    @property
    def handoff(self) -> Handoff:
        """Hands it on inside the process."""
        if self._handoff is None:
            self._handoff = Handoff(self)
        return self._handoff

    # The queue.

    @property
    def busy(self) -> bool:
        """A task of this process holds it, or is about to."""
        return self._busy > 0

    @property
    def open(self) -> bool:
        """Whoever comes asks the server: it keeps the queue, or nobody of this process is before them."""
        return self.contention.contenders is None or not (self._busy or self.waiters)

    @property
    def foremost(self) -> str:
        """The owner of this process's foremost waiter in the server's queue; '' if none is there."""
        queued = (waiter for waiter in self.waiters if waiter.queue_entry is not None)
        first = min(queued, key=lambda waiter: waiter.queue_number, default=None)
        return "" if first is None else first.owner

    def join(self, calls: Calls, policy: Policy, queue_number: int, contending: bool = False) -> Waiter:
        """One more who wants it; `contending` if it may talk to Redis whoever is before it."""
        runtime, contention = self.runtime, self.contention
        waiter = Waiter(calls, runtime.new_owner(contention.overlapping), policy, runtime.holder, queue_number)
        waiter.contending = contending or self.open
        runtime.gates[self._key] = self
        self.waiters[waiter] = None
        if not waiter.contending:
            self._promote()
        return waiter

    def leave_queue(self, waiter: Waiter) -> None:
        """Stop waiting; a grant that is there, or on its way, is undone."""
        del self.waiters[waiter]
        self.runtime.watchdog.forget(waiter)
        if waiter.grant is not None or waiter.offer or waiter.queue_entry is not None:
            self.undo(waiter)
        self.settle_down()

    def accepts(self, waiter: Waiter) -> bool:
        """True if the waiter has a grant it can use; one that came past its own deadline is undone.

        Raises:
            NotAcquired: the manager closes.
        """
        name = self.calls.name
        if self.runtime.closing:
            raise NotAcquired(name, f"lock {name!r} was not acquired: its manager was closed")
        grant = waiter.grant
        if grant is None:
            return False
        if self.runtime.clock.now() < grant.deadline:
            return True
        self.requeue(waiter)
        logger.warning("a grant of lock %r came past its own deadline: undone", name, extra={"lock_name": name})
        return False

    def undo(self, waiter: Waiter) -> PendingRelease:
        """End the acquisition that runs under the waiter's owner id, and give it a new one."""
        runtime, entry, ttl_ms = self.runtime, waiter.queue_entry, waiter.policy.ttl_ms
        release = PendingRelease(runtime, waiter.calls, waiter.owner, ttl_ms, 0, waiter.undoing, waiter.tainted)
        if entry is not None:
            entry.leave(release)
        self._busy -= waiter.offer
        waiter.owner = runtime.new_owner(self.contention.overlapping)
        waiter.tainted = waiter.offer = False
        waiter.grant = waiter.queue_entry = None
        self.signal()
        self._promote()
        return release

    def requeue(self, waiter: Waiter) -> None:
        """What it has cannot be used: undo it, and ask anew at once."""
        self.undo(waiter)
        waiter.retry_at = -math.inf
        waiter.poke()

    def queued(self, waiter: Waiter, call: Call[Any], owner: str, outcome: object) -> None:
        """The end of a request under the id `owner`: if that is still the waiter's, the server may have queued it."""
        if isinstance(outcome, Queued) and waiter.owner == owner:
            if waiter.queue_entry is None:
                waiter.queue_entry = QueueEntry(self, waiter)
            waiter.queue_entry.queued(outcome, call.sent_at)

    def granted(self, waiter: Waiter, grant: Grant) -> None:
        """The waiter is in, at once or from the server's queue."""
        if waiter.queue_entry is not None:
            waiter.queue_entry.leave()
        waiter.queue_entry = None
        waiter.grant = grant
        waiter.poke()

    def withdraw_offer(self, waiter: Waiter) -> None:
        """The transfer to it did not come about."""
        waiter.offer = False
        self._busy -= 1

    def refuse(self, waiter: Waiter, refusal: Refused) -> None:
        """Somebody else holds it: try again on a signal, or at the holder's expiry."""
        waiter.refusal, waiter.failure = refusal, None
        self.runtime.heard(refusal.fence)
        spread = random.uniform(0, JITTER)
        pause = self.runtime.limits.recheck + spread
        if self.runtime.poll is not None:
            pause = min(pause, self.runtime.poll.pause(waiter.attempts))
        waiter.attempts += 1
        if refusal.pttl >= 0:
            pause = min(pause, refusal.pttl / 1000 + 0.001 + spread)
        waiter.retry_at = self.runtime.clock.now() + pause
        if refusal.pttl < 0 and not self._warned:
            self._warned = True
            logger.warning("the key of lock %r has no expiry: only its holder can end it", self.calls.name)

    def admit(self, waiter: Waiter) -> Hold:
        """Make the waiter's grant a hold."""
        grant, runtime = waiter.grant, self.runtime
        assert grant is not None
        if not waiter.offer:
            self._busy += 1
        runtime.watchdog.forget(waiter)
        hold = Hold(waiter, grant, runtime.clock, runtime.watchdog, self)
        del self.waiters[waiter]
        if not self.waiters:
            self.waiters.clear()  # frees the dict's table, which deleting entries does not
        runtime.heard(hold.fence)
        runtime.holds[hold.owner] = hold
        self._holds += 1
        if self.waiters or self._ear is not None or runtime.draining is not None:
            self.settle_down()
        return hold

    def settle_down(self) -> None:
        """Somebody came or went: let the next one try, or forget the name."""
        if self.waiters:
            self._promote()
        else:
            if self._ear is not None:
                self._ear.stop()
            if not self._holds and not self._busy and self.runtime.gates.get(self._key) is self:
                del self.runtime.gates[self._key]
        if self.runtime.draining is not None:
            self.runtime.progress()

    def signal(self) -> None:
        """The lock may be free."""
        self.signals += 1
        if self.contention.contenders is not None:  # else the server tells whose turn it is
            for waiter in self.waiters:
                if waiter.contending:
                    waiter.poke()

    def recede(self) -> None:
        """The lock came to this process by a ticket: who contends for it queues up for a hand-off instead."""
        if self.contention.contenders is not None:
            for waiter in self.waiters:
                waiter.contending = False
            self._promote()

    def _promote(self) -> None:
        if self.contention.contenders is None:
            return
        slots = self.contention.contenders - self._busy
        for waiter in self.waiters:
            if slots <= 0:
                break
            slots -= 1
            if not waiter.contending and not waiter.offer:
                waiter.contending = True
                if self.runtime.clock.now() < self.yield_until:
                    waiter.seen, waiter.retry_at = self.signals, self.yield_until
                waiter.poke()

    # Holds and their leases.

    def of_task(self, task: asyncio.Task[object] | None) -> tuple[Lease, ...]:
        """The leases of `task`, innermost last."""
        return self.runtime.tasks.on(self, task)

    def find(self, task: asyncio.Task[object] | None, weight: int | None = None) -> Lease | None:
        """What `lock.release()` in `task` means: its innermost lease.

        Args:
            task: the caller.
            weight: only leases of this weight are meant; None for any.
        """
        for own in reversed(self.of_task(task)):
            if weight in (None, own.calls.weight):
                return own
        return None

    def lease(self, hold: Hold, calls: Calls, task: asyncio.Task[object] | None) -> Lease:
        """Another acquisition of `hold`, by `task`, of the weight of `calls`."""
        lease = Lease(self, hold, calls, task)
        self.runtime.tasks.add(lease)
        return lease

    def leave(self, lease: Lease, ending: Ending) -> ReleaseResult:
        """One lease of a hold ends, and with the last one the hold."""
        hold = lease.hold
        self.runtime.tasks.remove(lease)
        if hold.watchers:
            hold.left(lease)
        return self.lower(hold, ending)

    def lower(self, hold: Hold, ending: Ending) -> ReleaseResult:
        """One level less; at 0 the hold ends, by transfer to the next in the queue where that is allowed."""
        result = ReleaseResult(self.runtime, hold)
        if hold.ended:
            result.settle(Released(hold.fence))
            return result
        hold.depth -= 1
        if hold.depth > 0:
            self._write_rest(hold, ending, result)
            return result
        self._end(hold)
        successor = None
        if self.waiters and self.contention.contenders is not None:  # else the server says who is next
            successor = self.handoff.successor(hold, ending, result)
        if successor is not None:
            self.handoff.start(hold, successor, result)
            return result
        PendingRelease(self.runtime, hold.calls, hold.owner, hold.ttl_ms, 0, ending, hold.tainted, result)
        if hold.reason is None:
            self._busy -= 1
        if self.waiters:
            self.signal()
        self.settle_down()
        return result

    def lessen(self, lease: Lease, weight: int) -> ReleaseResult:
        """The lease goes on with less of the name: the rest comes back now. Nothing comes back of what is lost."""
        hold = lease.hold
        lost = hold.check() is not None
        result = ReleaseResult(self.runtime, hold)
        if not lost:
            lease.calls = cast(QueueCalls, lease.calls).weighing(weight)
            self._write_rest(hold, "clean", result)
        return result

    def _write_rest(self, hold: Hold, ending: Ending, result: ReleaseResult) -> None:
        """Tell the server what the open leases of the hold still need: depth and weight, both absolute."""
        if hold.calls.weight > 1:  # else it cannot get less
            hold.weigh()
        PendingRelease(self.runtime, hold.calls, hold.owner, hold.ttl_ms, hold.depth, ending, hold.tainted, result)

    def detach(self, lease: Lease) -> ReleaseResult:
        """The lease's hold goes on elsewhere: no release, and for who waits here the holder is a stranger."""
        self._end(lease.hold)
        self._busy -= 1
        result = self.leave(lease, "clean")  # of a hold that has ended: nothing is written
        self.settle_down()
        return result

    def _end(self, hold: Hold) -> None:
        hold.end()
        self._ended = hold.owner
        self._holds -= 1
        self.runtime.holds.pop(hold.owner, None)

    def collected(self, hold: Hold) -> None:
        loop = self.runtime.loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed: the lock expires by itself
                loop.call_soon_threadsafe(self._lower_collected, hold)

    def close(self) -> None:
        for waiter in self.waiters:
            waiter.poke()

    def occupied(self) -> bool:
        return bool(self.waiters)

    def expel(self, hold: Hold) -> None:
        if any(lease.guard for lease in hold.leases):
            return  # its block still runs: nobody else may enter before the ttl
        for lease in hold.all_leases():
            lease.give_up("dirty")
        if not hold.ended:
            hold.depth = 1
            self.lower(hold, "dirty")

    def _is_own(self, owner: str) -> bool:
        """The owner was of this queue, which went on when its release was written."""
        return owner == self._ended if self.contention.overlapping else self.runtime.is_own(owner)

    def _lower_collected(self, hold: Hold) -> None:
        if not hold.ended:
            self.lower(hold, "dirty")

    def lost(self, hold: Hold) -> None:
        self._busy -= 1
        self._promote()
