"""One name in one process: who holds it, and how holds begin and end. Acquire and release both pass it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from logging import WARNING
from typing import TYPE_CHECKING, Self, cast

from ..errors import AiolockError, LossReason, NotAcquired
from ..log import Line, Log
from ..scripts.base import Call, Ending
from ..scripts.bid import Bid
from ..scripts.outcomes import Granted, Released, TransferOutcome
from .calls import Calls, Contention, WeighedCalls
from .holding.hold import Hold
from .holding.level import Level
from .holding.release import Release
from .holding.telling import tell_abandoned, tell_dropped, tell_lost, tell_renewed
from .policy import Policy
from .runtime import Runtime
from .waiting.handoff import hand_on
from .waiting.local_queue import LONG_AGO, LocalQueue, pass_others
from .waiting.queue_entry import QueueEntry
from .waiting.wait import Meanwhile, Turn
from .waiting.waiter import Waiter

if TYPE_CHECKING:
    from ..scripts.multi import MultiCalls
    from .waiting.race import Race

LATE_GRANT: Line = Line(
    Log("aiolock.gate"),
    WARNING,
    "a grant of lock %(lock_name)r came past its own deadline: undone",
    "grants of %(count)d more locks came past their own deadlines: %(lock_names)s",
)


class Gate(LocalQueue):
    """The local side of one name: its waiters, and its holds; made on first use, known to the manager while it is used.

    Args:
        runtime: the manager's.
        calls: requests about the name, for what does not depend on an acquisition's weight.
        contention: the primitive's rule.


    Attributes:
        holds: how many have not ended; lost ones too.
    """

    __slots__ = ("_key", "_manager", "contention", "holds")

    def __init__(self, runtime: Runtime, calls: Calls, contention: Contention) -> None:
        self._new_entry = contention.entry or (_entry(calls) if contention.overlapping else QueueEntry)
        self._key = (calls.kind, calls.name)
        self._manager = runtime.binding.id
        self.runtime: Runtime = runtime
        self.calls: Calls = calls
        self.contention: Contention = contention
        self.holds: int = 0
        self.replies: int = 0
        self.stated_at: float = LONG_AGO
        self.seen_at: float = LONG_AGO
        self.taken: int = 0
        self.waiters: dict[Waiter, None] = {}
        self.entries: dict[QueueEntry, None] = {}
        self.common: QueueEntry | None = None
        self.asking: Waiter | None = None
        self.turn: Turn | None = None
        self.race: Race | None = _race(self) if calls.free_channel else None

    @classmethod
    def of(cls, runtime: Runtime, calls: Calls, contention: Contention, idle: Self | None = None) -> Self:
        """Return the gate of a name; if it is unused in this process, `idle` if that belongs to this entry of the
        manager, or a new one.
        """
        if idle is not None and idle._manager != runtime.binding.id:
            idle = None
        known = runtime.gates.get((calls.kind, calls.name) if idle is None else idle._key)
        if isinstance(known, cls):  # else there is none: no other primitive has this kind
            return known
        return idle or cls(runtime, calls, contention)

    @property
    def busy(self) -> bool:
        """Whether a task of this process holds all there is, or is about to."""
        return self.contention.exclusive and self.taken > 0

    @property
    def open(self) -> bool:
        """Whether a new task asks the server: no task of this process is before it."""
        return not (self.contention.exclusive and (self.taken or self.waiters or self.common is not None))

    def occupied(self) -> bool:
        """Whether a task waits."""
        return bool(self.waiters or self.entries)

    # Coming and going.

    def join(self, calls: Calls, policy: Policy, timeout: float | None) -> Waiter:
        """Add a waiter.

        Args:
            calls: requests of this acquisition's weight.
            policy: how it wants to hold it.
            timeout: seconds to wait; None for no limit, 0 for one attempt.
        """
        # A waiter survives an outage, but not behind others that never had an answer either.
        held = self.taken > 0 or (self.common is not None and self.common.refused)
        waiter = Waiter(self, calls, policy, timeout, self.contention.exclusive and timeout != 0 and held)
        self._line_up(waiter)
        return waiter

    def _line_up(self, waiter: Waiter) -> None:
        self.runtime.gates[self._key] = self
        if not waiter.queues or waiter.calls.ordered:
            waiter.asked = True
            self.enter(waiter, alone=True).ask()
            return
        self.waiters[waiter] = None
        if waiter.policy.priority:
            pass_others(self.waiters, waiter, lambda one: one.place)
        if self.asking is not None:
            self.adopt(self.asking)  # from now on it asks for both
        elif self.common is None and not self.taken:
            waiter.asked = True
            if self.race is None and self._new_entry is QueueEntry:
                waiter.ask()
            else:
                self.ask_for_all(waiter)
        if not waiter.asked:
            self.entangles(waiter)

    def entangles(self, waiter: Waiter) -> None:
        """See `LocalQueue`."""
        Meanwhile.begin(self.runtime, self, waiter)

    def claim(self, calls: Calls, policy: Policy, request: Callable[[Bid], Call[TransferOutcome]]) -> Waiter:
        """Add a waiter for what an owner elsewhere has given up for it; it never waits for its turn.

        Args:
            calls: requests of what it gets.
            policy: how it wants to hold it.
            request: makes the request.
        """
        self.runtime.gates[self._key] = self
        waiter = Waiter(self, calls, policy, 0.0, patient=False)
        entry = self.enter(waiter, alone=True)
        entry.undoing = "dirty"  # the work that it takes over was begun, and is unfinished
        entry.request(request(entry.bid(0)))
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Stop waiting. What it has goes to the next one of this process, or is undone."""
        if waiter.call is not None:
            self.adopt(waiter)
        waiter.stop()
        self.waiters.pop(waiter, None)
        entry, waiter.entry = waiter.entry, None
        hold, waiter.hold = waiter.hold, None
        if hold is not None and not hold.ended:
            ending = "undone" if entry is None else entry.undoing
            # To the next one of this process, but not what the task has not been told.
            self.lower(hold, ending if hold.abandoned or ending == "dirty" else "clean")
        elif entry is not None:
            entry.end()
        if self.common is not None and not self.waiters:
            self.common.end()
        self.settle_down()

    def rejoin(self, waiter: Waiter) -> None:
        """What it was granted was lost before its task ran: undo it, and ask again, before all others."""
        hold, shares = waiter.hold, waiter.queues and not waiter.calls.ordered
        assert hold is not None
        if hold.reason is not LossReason.REVOKED:
            self.runtime.warn(LATE_GRANT, self.calls.name)
        waiter.wait_again()
        if shares:
            self.waiters = {waiter: None, **self.waiters}  # the next one that asks
        self.lower(hold, "undone")
        if not shares:
            self._line_up(waiter)

    def settle_down(self) -> None:
        """A task came or went: let the next one ask, or forget the name."""
        runtime = self.runtime
        if self.waiters:
            self.advance()
        elif not self.entries:
            if self.race is not None and not (self.holds and self.contention.watches):
                self.race.stop()
            if not (self.holds or self.taken) and runtime.gates.get(self._key) is self:
                del runtime.gates[self._key]
        if runtime.draining is not None:
            runtime.draining()

    def signal(self) -> None:
        """The name may be free."""
        if self.race is not None:
            self.race.signal()

    def verify_holds(self) -> None:
        """What this process holds may have been ended by force: ask the server."""
        for hold in list(self.runtime.holds.values()):
            if hold.home is self:
                hold.verify()

    def close(self) -> None:
        """End all waits: the manager closes."""
        self._fail(self.waits(), "its manager was closed meanwhile; end this task")

    def end_waits(self, why: str) -> int:
        """Fail all that wait, and none that only awaits its one answer; return how many that are."""
        return self._fail([waiter for waiter in self.waits() if waiter.queues], why)

    def _fail(self, waits: list[Waiter], why: str) -> int:
        name, waits = self.calls.name, [waiter for waiter in waits if not waiter.outcome.done()]
        for waiter in waits:
            waiter.fail(NotAcquired(name, f"lock {name!r} was not acquired: {why}"))
        return len(waits)

    # Holds and their leases.

    def begin(self, waiter: Waiter, asked: Waiter | QueueEntry, grant: Granted, sent_at: float) -> None:
        """See `LocalQueue`. The hold begins here, however late the task goes in."""
        runtime, owner = self.runtime, asked.owner
        hold = Hold(owner, waiter.calls, waiter.policy, grant, sent_at, self, runtime.clock.now())
        hold.tainted, hold.wanted = asked.tainted, asked.wanted
        runtime.fences.heard(hold.fence)
        runtime.holds[owner] = waiter.hold = hold
        runtime.queue_entries.pop(owner, None)  # not before: its manager knows an owner at any time
        self.taken += 1
        self.holds += 1
        if asked.revoked:
            hold.lose(LossReason.REVOKED)
        if not waiter.outcome.done():  # otherwise it gives up, and returns what it has
            waiter.outcome.set_result(grant)

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
        hold.ended, hold.depth = True, 0
        try:  # first the request: others wait for that
            passing = (self.waiters or self.entries) and ending == "clean" and hold.reason is None
            if passing and hold.kept_until <= runtime.clock.now() and hand_on(self, hold, release):
                release.handed_on = True
            else:
                release.write()
        finally:
            hold.end()
            self.holds -= 1
            runtime.holds.pop(hold.owner, None)
        if not release.handed_on:
            if hold.reason is None or not hold.entered:
                self.taken -= 1
            if self.race is not None:
                self.race.released()
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
            lease._calls = cast(WeighedCalls, lease._calls).weighing(weight)
            hold.slots = hold.slots[:weight]
            _write_rest(hold, release)
        return release

    def detach(self, lease: Level) -> Release:
        """The lease's hold continues elsewhere: no release, and for waiters here the holder is a stranger."""
        hold = lease._hold
        hold.end()
        self.holds -= 1
        self.runtime.holds.pop(hold.owner, None)
        self.taken -= 1
        release = self.lower(hold, "clean", lease)  # it has ended: nothing is written
        self.settle_down()
        return release

    @property
    def unreachable(self) -> AiolockError | None:
        """Why there is no server, if there is none."""
        return self.runtime.away(*(self.calls.names or (self.calls.name,)))

    def lost(self, hold: Hold) -> None:
        """A hold is lost, and not yet ended: waiters of this process ask the server from now on."""
        if hold.entered:  # otherwise its task is about to ask again, before them
            self.taken -= 1
            self.settle_down()
            tell_lost(self.runtime, hold)

    def extended(self, hold: Hold, deadline: float, pttl: int, sent_at: float) -> None:
        """A hold was renewed: here is the time to check whether it is still in use."""
        tell_renewed(self.runtime, hold, deadline, pttl, sent_at)
        if self.race is not None:
            self.race.held()  # perhaps the subscription was refused
        if not hold.dropped and self.runtime.leases.dropped(hold):
            hold.dropped = True
            tell_dropped(self.runtime, hold)

    def collected(self, hold: Hold) -> None:
        """A lease of `hold` was garbage collected unreleased; called from any thread."""
        loop = self.runtime.binding.loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed: the lock expires by itself
                loop.call_soon_threadsafe(self._lower_collected, hold)

    def expel(self, hold: Hold) -> None:
        """End the hold, unless it guards a block: the manager closes."""
        if any(lease._guard for lease in hold.leases):
            return  # its block still runs: no one may enter before the ttl
        for lease in hold.all_leases():
            lease._give_up("dirty")
        if not hold.ended:
            hold.depth = 1
            self.lower(hold, "dirty" if hold.entered else "undone")

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


def _race(gate: Gate) -> Race:
    """How tasks wait without a queue."""
    from .waiting.race import Race

    return Race(gate, gate.verify_holds if gate.contention.watches else None)


def _entry(calls: Calls) -> type[QueueEntry]:
    """What waits for several names."""
    from .waiting.gathering import Gathering  # with the primitive
    from .waiting.stepwise import Stepwise

    return Stepwise if len(cast("MultiCalls", calls).groups) > 1 else Gathering
