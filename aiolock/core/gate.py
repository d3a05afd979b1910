"""One name in one process: who holds it, and how holds begin and end. Acquire and release both pass it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import cast

from ..errors import AiolockError
from ..log import Log
from ..scripts.base import Call, Ending
from ..scripts.bid import Bid
from ..scripts.multi import MultiCalls
from ..scripts.outcomes import Released, TransferOutcome
from ..scripts.queue import QueueCalls
from .calls import Calls, Contention
from .holding.hold import Hold
from .holding.level import Level
from .holding.release import Release
from .holding.telling import tell_abandoned, tell_dropped, tell_lost, tell_renewed
from .policy import Policy
from .runtime import Runtime
from .waiting.gathering import Gathering
from .waiting.handoff import hand_on
from .waiting.local_queue import LocalQueue
from .waiting.queue_entry import QueueEntry
from .waiting.stepwise import Stepwise
from .waiting.waiter import Waiter

logger: Log = Log("aiolock.gate")


class Gate:
    """The local side of one name; made on first use, known to the manager while it is used.

    Args:
        runtime: the manager's.
        calls: requests about the name, for what does not depend on an acquisition's weight.
        contention: the primitive's rule.

    Attributes:
        queue: the waiters.
        holds: how many have not ended; lost ones too.
    """

    __slots__ = ("_key", "_manager", "calls", "contention", "holds", "queue", "runtime")

    def __init__(self, runtime: Runtime, calls: Calls, contention: Contention) -> None:
        self.runtime: Runtime = runtime
        self.calls: Calls = calls
        self.contention: Contention = contention
        self.queue: LocalQueue = LocalQueue(runtime, calls, _entry(calls) if contention.overlapping else QueueEntry)
        self._key = (calls.kind, calls.name)
        self._manager = runtime.binding.id
        self.holds: int = 0

    @classmethod
    def of(cls, runtime: Runtime, calls: Calls, contention: Contention, idle: Gate | None = None) -> Gate:
        """Return the gate of a name; if it is unused in this process, `idle` if that belongs to this entry of the
        manager, or a new one.
        """
        if idle is not None and idle._manager != runtime.binding.id:
            idle = None
        known = runtime.gates.get((calls.kind, calls.name) if idle is None else idle._key)
        if isinstance(known, Gate):  # else there is none: no other primitive has this kind
            return known
        return idle or cls(runtime, calls, contention)

    # Waiting.

    @property
    def busy(self) -> bool:
        """Whether a task of this process holds all there is, or is about to."""
        return self.contention.exclusive and self.queue.taken > 0

    @property
    def open(self) -> bool:
        """Whether a new task asks the server: no task of this process is before it."""
        return not self.contention.exclusive or self.queue.idle

    def join(self, calls: Calls, policy: Policy, timeout: float | None) -> Waiter:
        """Add a waiter.

        Args:
            calls: requests of this acquisition's weight.
            policy: how it wants to hold it.
            timeout: seconds to wait; None for no limit, 0 for one attempt.
        """
        queue, common = self.queue, self.queue.common
        self.runtime.gates[self._key] = self
        # A waiter survives an outage, but not behind others that never had an answer either.
        held = queue.taken > 0 or (common is not None and common.refused)
        waiter = Waiter(queue, calls, policy, timeout, self.contention.exclusive and timeout != 0 and held)
        queue.join(waiter)
        return waiter

    def claim(self, calls: Calls, policy: Policy, request: Callable[[Bid], Call[TransferOutcome]]) -> Waiter:
        """Add a waiter for what an owner elsewhere has given up for it; it never waits for its turn.

        Args:
            calls: requests of what it gets.
            policy: how it wants to hold it.
            request: makes the request.
        """
        self.runtime.gates[self._key] = self
        waiter = Waiter(self.queue, calls, policy, 0.0, patient=False)
        self.queue.claim(waiter, request)
        return waiter

    def leave_queue(self, waiter: Waiter) -> None:
        """Stop waiting; a grant that is there, or on its way, is undone."""
        self.queue.leave(waiter)
        self.settle_down()

    def ask_again(self, waiter: Waiter) -> None:
        """Its grant came too late: undo that, and ask anew."""
        name = self.calls.name
        logger.warning("a grant of lock %r came past its own deadline: undone", name, extra={"lock_name": name})
        self.queue.rejoin(waiter)

    def settle_down(self) -> None:
        """A task came or went: let the next one ask, or forget the name."""
        queue, runtime = self.queue, self.runtime
        if queue.waiters:
            queue.advance()
        elif not queue.entries:
            if queue.race is not None:
                queue.race.stop()
            if not (self.holds or queue.taken) and runtime.gates.get(self._key) is self:
                del runtime.gates[self._key]
        if runtime.draining is not None:
            runtime.draining()

    def signal(self) -> None:
        """The name may be free."""
        if self.queue.race is not None:
            self.queue.race.signal()

    # Holds and their leases.

    def of_task(self, task: asyncio.Task[object] | None) -> tuple[Level, ...]:
        """The leases of `task`, innermost last."""
        return self.runtime.leases.on(self, task)

    def lower(self, hold: Hold, ending: Ending, lease: Level | None = None) -> Release:
        """End one level; at 0 the hold ends, and the name goes to the next of this process if it is its turn.

        Args:
            hold: what ends, or gets less.
            ending: how.
            lease: which level; None for one that has no lease.
        """
        runtime = self.runtime
        release = Release(runtime, hold.calls, hold.owner, hold.ttl_ms, ending, hold.tainted, hold)
        if hold.watchers and lease is not None:
            hold.left(lease)
        if hold.depth != 1:
            if lease is not None:
                runtime.leases.remove(lease)
            if hold.ended:
                release.settle(Released(hold.fence))
            else:
                hold.depth -= 1
                _write_rest(hold, release)
            return release
        queue, hold.ended, hold.depth = self.queue, True, 0
        try:  # first the request: others wait for that
            passing = (queue.waiters or queue.entries) and ending == "clean" and hold.reason is None
            if passing and hand_on(queue, hold, release):
                release.handed_on = True
            else:
                release.write()
        finally:
            hold.end()
            self.holds -= 1
            runtime.holds.pop(hold.owner, None)
        if not release.handed_on:
            if hold.reason is None:
                queue.taken -= 1
            if queue.race is not None:
                queue.race.released()
            self.settle_down()
        if lease is not None:
            runtime.leases.remove(lease)
        return release

    def lessen(self, lease: Level, weight: int) -> Release:
        """Continue the lease with less of the name: give back the rest now. A lost lease gives nothing back."""
        hold = lease._hold
        lost = hold.check() is not None
        release = Release(self.runtime, hold.calls, hold.owner, hold.ttl_ms, "clean", hold.tainted, hold)
        if not lost:
            lease._calls = cast(QueueCalls, lease._calls).weighing(weight)
            _write_rest(hold, release)
        return release

    def detach(self, lease: Level) -> Release:
        """The lease's hold continues elsewhere: no release, and for waiters here the holder is a stranger."""
        hold = lease._hold
        hold.end()
        self.holds -= 1
        self.runtime.holds.pop(hold.owner, None)
        self.queue.taken -= 1
        release = self.lower(hold, "clean", lease)  # it has ended: nothing is written
        self.settle_down()
        return release

    @property
    def unreachable(self) -> AiolockError | None:
        """Why there is no server, if there is none."""
        return self.runtime.away(*(self.calls.names or (self.calls.name,)))

    def lost(self, hold: Hold) -> None:
        """A hold is lost, and not yet ended: waiters of this process ask the server from now on."""
        self.queue.taken -= 1
        self.settle_down()
        tell_lost(self.runtime, hold)

    def extended(self, hold: Hold, deadline: float, pttl: int, sent_at: float) -> None:
        """A hold was renewed: here is the time to look whether it is still in use."""
        tell_renewed(self.runtime, hold, deadline, pttl, sent_at)
        if not hold.dropped and self.runtime.leases.dropped(hold):
            hold.dropped = True
            tell_dropped(self.runtime, hold)

    def collected(self, hold: Hold) -> None:
        """A lease of `hold` was garbage collected unreleased; called from any thread."""
        loop = self.runtime.binding.loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed: the lock expires by itself
                loop.call_soon_threadsafe(self._lower_collected, hold)

    def close(self) -> None:
        """End all waits."""
        self.queue.close()

    def occupied(self) -> bool:
        """Whether a task waits."""
        return not self.queue.empty

    def expel(self, hold: Hold) -> None:
        """End the hold, unless it guards a block: the manager closes."""
        if any(lease._guard for lease in hold.leases):
            return  # its block still runs: no one may enter before the ttl
        for lease in hold.all_leases():
            lease._give_up("dirty")
        if not hold.ended:
            hold.depth = 1
            self.lower(hold, "dirty")

    def _lower_collected(self, hold: Hold) -> None:
        if not hold.ended:
            self.lower(hold, "dirty")
            if hold.reason is None:
                tell_abandoned(self.runtime, hold, collected=True)


def _write_rest(hold: Hold, release: Release) -> None:
    """Tell the server what the open leases of the hold still need: depth and weight, both absolute."""
    if hold.calls.weight > 1:  # otherwise it cannot get less
        hold.weigh()
        release.calls = hold.calls
    release.write(hold.depth)


def _entry(calls: Calls) -> type[QueueEntry]:
    """What waits for several names."""
    return Stepwise if len(cast(MultiCalls, calls).groups) > 1 else Gathering
