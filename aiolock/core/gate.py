"""One name in one process: who holds, who waits, who may talk to Redis. Acquire and release both pass it."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import weakref
from functools import partial

from ..errors import BackendError, NotAcquired
from ..scripts.base import Call
from ..scripts.lock import Ending
from ..scripts.outcomes import Finished, Granted, Missing, Refused, Released, TransferOutcome
from .calls import Calls, Contention
from .hold import Hold
from .lease import Lease
from .runtime import Runtime
from .settlement import Release, Settlement
from .waiter import Waiter

logger: logging.Logger = logging.getLogger("aiolock.gate")

YIELD_PAUSE = 0.05
"""Seconds for which the local queue leaves a lock to other processes after `handoff_limit` hand-offs in a row."""
JITTER = 0.01
"""Seconds over which processes that wait for the same expiry spread their attempts."""


class Gate:
    """The local side of one name; made on first use, gone when nobody uses it.

    Args:
        runtime: the manager's.
        calls: the name's requests.
        contention: the primitive's rule.
    """

    def __init__(self, runtime: Runtime, calls: Calls, contention: Contention) -> None:
        self.runtime = runtime
        self.calls = calls
        self.contention = contention
        self.signals: int = 0
        self.answered = False  # the server has spoken since somebody of this process wanted the lock
        self.refused: BackendError | None = None  # the server will not let us subscribe
        self._holds: list[Hold] = []  # not ended; lost ones too
        self._strays: weakref.WeakSet[Lease] = weakref.WeakSet()  # plain leases whose task has ended
        self._waiters: dict[Waiter, None] = {}
        self._busy = 0  # slots taken by live holds and by transfers on their way
        self._listening: asyncio.Future[None] | None = None
        self._streak = 0  # transfers in a row
        self._others = 0  # managers that listened at the last transfer
        self._yield_until = -math.inf
        self._warned = False

    # The queue.

    @property
    def busy(self) -> bool:
        """A task of this process holds it, or is about to."""
        return self._busy > 0

    @property
    def idle(self) -> bool:
        """Nobody of this process holds or queues."""
        return not self._busy and not self._waiters

    def join(self, waiter: Waiter) -> None:
        """Queue up."""
        self.runtime.gates[self.calls.kind, self.calls.name] = self
        self._waiters[waiter] = None
        self._promote()

    def leave_queue(self, waiter: Waiter) -> None:
        """Stop waiting; a grant that is there, or on its way, is undone."""
        del self._waiters[waiter]
        self.runtime.watchdog.forget(waiter)
        if waiter.grant is not None or waiter.offer:
            self.undo(waiter)
        self._settle_down()

    def accepts(self, waiter: Waiter) -> bool:
        """True if the waiter has a grant it can use; one that came past its own deadline is undone.

        Raises:
            NotAcquired: the manager closes.
            BackendError: the server refuses the subscription that waiting needs.
        """
        name = self.calls.name
        if self.runtime.closing:
            raise NotAcquired(name, f"lock {name!r} was not acquired: its manager was closed")
        if waiter.grant is None:
            if self.refused is not None:
                raise self.refused
            return False
        grant, sent_at = waiter.grant
        if self.runtime.clock.now() < sent_at + grant.pttl / 1000 - waiter.policy.margin:
            return True
        logger.warning("a grant of lock %r came past its own deadline: undone", name, extra={"lock_name": name})
        self.undo(waiter)
        waiter.retry_at = -math.inf
        return False

    def undo(self, waiter: Waiter) -> Release:
        """End the acquisition that runs under the waiter's owner id, and give it a new one."""
        release = Release(self.runtime, self.calls, waiter.owner, waiter.policy.ttl_ms, 0, "undone", waiter.tainted)
        self._busy -= waiter.offer
        waiter.owner = self.runtime.new_owner()
        waiter.tainted = waiter.offer = False
        waiter.grant = None
        self.signal()
        self._promote()
        return release

    def refuse(self, waiter: Waiter, refusal: Refused) -> None:
        """Somebody else holds it: try again on a signal, or at the holder's expiry."""
        waiter.refusal = refusal
        self.runtime.heard(refusal.fence)
        pause = self.runtime.limits.recheck
        if refusal.pttl >= 0:
            pause = min(pause, refusal.pttl / 1000 + 0.001)
        elif not self._warned:
            self._warned = True
            logger.warning("the key of lock %r has no expiry: only its holder can end it", self.calls.name)
        waiter.retry_at = self.runtime.clock.now() + pause + random.uniform(0, JITTER)

    def listen(self) -> None:
        """Hear of releases; once confirmed, contenders try again."""
        if self._listening is None:
            self._listening = self.runtime.signals.listen(self.calls.free, self._on_message)
            self._listening.add_done_callback(self._on_confirmed)

    def admit(self, waiter: Waiter) -> Hold:
        """Make the waiter's grant a hold."""
        assert waiter.grant is not None
        grant, sent_at = waiter.grant
        runtime = self.runtime
        if not waiter.offer:
            self._busy += 1
        hold = Hold(
            self.calls,
            waiter.policy,
            waiter.owner,
            grant,
            sent_at,
            waiter.tainted,
            runtime.clock,
            runtime.watchdog,
            self._on_lost,
        )
        del self._waiters[waiter]
        runtime.watchdog.forget(waiter)
        runtime.heard(grant.fence)
        runtime.holds[hold.owner] = hold
        self._holds.append(hold)
        self._settle_down()
        return hold

    def _promote(self) -> None:
        slots = math.inf if self.contention.contenders is None else self.contention.contenders - self._busy
        for waiter in self._waiters:
            if slots <= 0:
                break
            slots -= 1
            if not waiter.contending and not waiter.offer:
                waiter.contending = True
                if self.runtime.clock.now() < self._yield_until:
                    waiter.seen, waiter.retry_at = self.signals, self._yield_until
                waiter.poke()

    def _settle_down(self) -> None:
        if self._waiters:
            self._promote()
        else:
            self._stop_listening()
            key = (self.calls.kind, self.calls.name)
            if not self._holds and not self._busy and self.runtime.gates.get(key) is self:
                del self.runtime.gates[key]
        self.runtime.progress()

    # Signals.

    def signal(self) -> None:
        """The lock may be free."""
        self.signals += 1
        for waiter in self._waiters:
            if waiter.contending:
                waiter.poke()

    def _on_message(self, payload: str | None) -> None:
        if payload is not None:
            who, _, fence = payload.partition(" ")
            self.runtime.heard(int(fence) if fence.isdecimal() else 0)
            if who.startswith(self.runtime.id):
                return  # our own release: this queue went on when it was written
        self.signal()

    def _on_confirmed(self, confirmed: asyncio.Future[None]) -> None:
        if confirmed is not self._listening:
            return  # an earlier subscription, given up before it was confirmed
        error = confirmed.exception()
        if isinstance(error, BackendError):
            if not error.transient:
                name = self.calls.name
                self.refused = BackendError(name, f"waiting for lock {name!r} is not possible: {error}")
                self.refused.__cause__ = error.__cause__
            self._stop_listening()
            self.signal()

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self.runtime.signals.leave(self.calls.free, self._on_message)
            self._listening = None

    # Holds and their leases.

    def held_by(self, task: asyncio.Task[object] | None) -> Hold | None:
        """The hold that `task` has a lease of."""
        for hold in self._holds:
            for _ in hold.in_task(task):
                return hold
        return None

    def lease(self, hold: Hold, task: asyncio.Task[object] | None) -> Lease:
        """Another acquisition of `hold`, by `task`."""
        if task is not None and self.held_by(task) is None:
            task.add_done_callback(self._on_task_end)
        lease = Lease(self, hold, task)
        hold.leases.append(lease)
        return lease

    def find(self, task: asyncio.Task[object] | None) -> Lease | None:
        """What `lock.release()` in `task` means: its innermost lease, or the only one whose task has ended."""
        for hold in reversed(self._holds):
            for lease in hold.in_task(task):
                return lease
        strays = [lease for lease in self._strays if not lease.released]
        return strays[0] if len(strays) == 1 else None

    def leave(self, lease: Lease, ending: Ending) -> Settlement:
        """One lease of a hold ends, and with the last one the hold."""
        hold, task = lease.hold, lease.task
        if lease in hold.leases:
            hold.leases.remove(lease)
        self._strays.discard(lease)
        if task is not None and self.held_by(task) is None:
            task.remove_done_callback(self._on_task_end)
        return self.lower(hold, ending)

    def lower(self, hold: Hold, ending: Ending) -> Settlement:
        """One level less; at 0 the hold ends, by transfer to the next in the queue where that is allowed."""
        settlement = Settlement(self.runtime, hold)
        if hold.ended:
            settlement.settle(Released(hold.fence))
            return settlement
        hold.depth -= 1
        if hold.depth > 0:
            Release(self.runtime, self.calls, hold.owner, hold.ttl_ms, hold.depth, ending, hold.tainted, settlement)
            return settlement
        hold.end()
        self._holds.remove(hold)
        self.runtime.holds.pop(hold.owner, None)
        successor = self._successor(hold, ending)
        if successor is not None:
            self._transfer(hold, successor, settlement)
            return settlement
        Release(self.runtime, self.calls, hold.owner, hold.ttl_ms, 0, ending, hold.tainted, settlement)
        if hold.reason is None:
            self._busy -= 1
        self.signal()
        self._settle_down()
        return settlement

    def collected(self, hold: Hold) -> None:
        loop = self.runtime.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._lower_collected, hold)

    def close(self) -> None:
        for waiter in self._waiters:
            waiter.poke()

    def occupied(self, but: asyncio.Task[object] | None) -> bool:
        if self._waiters:
            return True
        guards = (lease.guard for hold in self._holds for lease in hold.leases)
        return any(guard is not None and guard.task is not but for guard in guards)

    def expel(self) -> None:
        for hold in list(self._holds):
            if any(lease.guard for lease in hold.leases):
                continue  # its block still runs: nobody else may enter before the ttl
            for lease in [*hold.leases, *self._strays]:
                if lease.hold is hold:
                    lease.give_up("dirty")
            if not hold.ended:
                hold.depth = 1
                self.lower(hold, "dirty")

    def _lower_collected(self, hold: Hold) -> None:
        if not hold.ended:
            self.lower(hold, "dirty")

    def _on_lost(self, hold: Hold) -> None:
        self._busy -= 1
        self._promote()

    def _on_task_end(self, task: asyncio.Task[object]) -> None:
        for lease in [lease for hold in self._holds for lease in hold.in_task(task)]:
            lease.task = None
            if lease.guard is None:
                lease.hold.leases.remove(lease)
                self._strays.add(lease)
            else:
                logger.error(
                    "a task ended inside `async with` on lock %r without leaving it: released",
                    lease.name,
                    extra={"lock_name": lease.name},
                )
                lease.guard.abandon()
                lease.give_up("dirty")

    # Hand-off.

    def _successor(self, hold: Hold, ending: Ending) -> Waiter | None:
        if not self.contention.handoff or ending != "clean" or hold.reason is not None or self.runtime.closing:
            return None
        waiter = next((waiter for waiter in self._waiters if not waiter.contending and not waiter.offer), None)
        listeners = self._others - (self._listening is not None)
        quorum = self.runtime.backend.nodes > 1  # no transfer there, and nobody says who else listens
        if waiter is not None and self._streak >= self.runtime.limits.handoff_limit:
            self._streak = 0
            if listeners > 0 or self.runtime.limits.handoff_limit == 0 or quorum:
                self._yield_until = self.runtime.clock.now() + YIELD_PAUSE
                return None
        if waiter is not None and quorum:
            self._streak += 1
            return None
        return waiter

    def _transfer(self, hold: Hold, waiter: Waiter, settlement: Settlement) -> None:
        request = partial(
            self.calls.transfer,
            hold.owner,
            hold.fence,
            waiter.owner,
            waiter.policy.ttl_ms,
            self.runtime.floor,
            waiter.metadata,
        )
        owner = waiter.owner
        call = request(hold.tainted)
        waiter.offer = True

        def unanswered() -> bool:
            hold.tainted = True
            if waiter.owner != owner:  # it is gone, and its undo follows: end both
                return False
            waiter.tainted = True
            call.args = request(True).args
            return True

        call.unanswered = unanswered
        call.settle = partial(self._transferred, hold, waiter, owner, call, settlement)
        self.runtime.backend.run(call)

    def _transferred(
        self,
        hold: Hold,
        waiter: Waiter,
        owner: str,
        call: Call[TransferOutcome],
        settlement: Settlement,
        result: TransferOutcome | BackendError,
    ) -> None:
        wanted = waiter in self._waiters and waiter.owner == owner
        if isinstance(result, Granted):
            self._streak += 1
            self._others = result.others
            settlement.settle(Released(hold.fence))
            if wanted:
                waiter.grant = (result, call.sent_at)
                waiter.poke()
            return
        if isinstance(result, Missing):
            settlement.settle(result, resent=hold.tainted)
        else:
            # Unknown, refused, or the successor was undone before: whoever has it, neither keeps it.
            unknown = isinstance(result, BackendError)
            Release(self.runtime, self.calls, hold.owner, hold.ttl_ms, 0, "clean", hold.tainted, settlement, unknown)
            if wanted and not isinstance(result, Finished):
                self.undo(waiter)
        if wanted and waiter.offer:
            waiter.offer = False
            self._busy -= 1
        self._settle_down()
