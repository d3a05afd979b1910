"""Why a task does not get a name: in words, and as data. Also a word in time, if it may wait for itself."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import NamedTuple

from ..clock import format_seconds
from ..errors import AcquireTimeout, AiolockError, BackendError, Holder
from ..log import Log
from ..scripts.bid import told
from ..scripts.outcomes import Queued, Refused
from .calls import Calls
from .gate import Gate
from .holding.hold import Hold
from .holding.leases_by_task import TaskLeases, held_by_kin, lineage
from .scheduler import NEVER
from .waiting.queue_entry import QueueEntry
from .waiting.waiter import Waiter

logger: Log = Log("aiolock.lock")

SUSPECT = 1.0
"""Seconds after which such a wait is told."""


class Kin(NamedTuple):
    """A task's own hold, or that of a task that led to it, which leaves too little of a name for it.

    Attributes:
        hold: it.
        why: how it is in the way, and what to do about it.
    """

    hold: Hold
    why: str

    @classmethod
    def of(cls, gate: Gate, calls: Calls, task: asyncio.Task[object] | None, first: TaskLeases | None) -> Kin | None:
        """Return what is in the way of `task`; None if nothing of it is.

        Args:
            gate: the name's.
            calls: requests of what it wants.
            task: who wants it.
            first: what it holds, or the nearest task that led to it and holds anything.
        """
        taken = 0
        for holds in lineage(first):
            for lease in holds.leases.get(gate, ()):
                hold = lease._hold
                if hold.reason is not None:
                    continue
                if gate.contention.reentrant:
                    reads = calls.weight > hold.calls.weight  # and no reader becomes a writer
                    share = ": pass owner=lease.owner to acquire() to share it"
                    how = " for reading: release that first" if reads else share
                    return cls(hold, f"a task that started this one holds it{how}")
                taken += lease._calls.weight
                if taken + calls.weight > hold.capacity:
                    who = "this task" if holds.task() is task else "a task that started this one"
                    return cls(hold, f"{who} holds what it would need: release that first")
        for holds in lineage(first):
            for hold in overlapping(gate, holds):
                why = (
                    f"a task that started this one holds {hold.calls.name!r}, which overlaps with it: release that "
                    "first, or take all names at once"
                )
                return cls(hold, why)
        return None


def overlapping(gate: Gate, holds: TaskLeases) -> Iterator[Hold]:
    """What a task holds that the gate's name needs, too."""
    names = gate.calls.names
    for lease in holds if gate.contention.overlapping else holds.overlapping:
        hold = lease._hold
        if gate.runtime.holds.get(hold.owner) is hold and not set(names).isdisjoint(hold.calls.names):
            yield hold


class KinWatch:
    """Warns once of a wait that may be one for the waiting task itself.

    Nobody can know that: the task that holds the name may await this one, or go on without it.

    Args:
        gate: the name's.
        waiter: who waits.
        task: its task.
        first: see `Kin.of`.
    """

    __slots__ = ("_first", "_gate", "_task", "_waiter", "due")

    def __init__(self, gate: Gate, waiter: Waiter, task: asyncio.Task[object] | None, first: TaskLeases | None) -> None:
        self._gate = gate
        self._waiter = waiter
        self._task = task
        self._first = first
        self.due: float = NEVER

    @classmethod
    def begin(cls, gate: Gate, waiter: Waiter, task: asyncio.Task[object] | None) -> None:
        """Watch the wait of the running task, if its own kin is in its way."""
        first = held_by_kin()
        if first is not None and Kin.of(gate, waiter.calls, task, first) is not None:
            gate.runtime.scheduler.schedule(cls(gate, waiter, task, first), waiter.began + SUSPECT)

    def on_due(self, now: float, late: float) -> None:
        if self._waiter.outcome.done():
            return
        kin = Kin.of(self._gate, self._waiter.calls, self._task, self._first)
        if kin is not None:
            name, task = self._gate.calls.name, "" if self._task is None else self._task.get_name()
            text = "task %r waits for lock %r, perhaps without end: %s"
            logger.warning(text, task, name, kin.why, extra={"lock_name": name})


class Refusal:
    """Why a name was not available, as far as this process knows.

    Args:
        gate: the name's.
        entry: what asked for it; None if nothing did, because a task of this process was first.
        kin: what the task itself holds, or one that led to it, so that it would wait for itself.
        answered: the task awaits no answer: a server has answered since it came, or it did not ask. If there was no
            refusal, another task of this process is before it.
    """

    __slots__ = ("_busy", "_failure", "_gate", "_kin", "_seen")

    def __init__(self, gate: Gate, entry: QueueEntry | None, kin: Kin | None = None, answered: bool = False) -> None:
        self._gate = gate
        self._kin = kin
        wait = None if entry is None else entry.wait
        self._seen: Refused | Queued | None = None if wait is None else wait.refusal
        self._failure: BackendError | None = None if wait is None else wait.failure
        asked = self._seen is not None or self._failure is not None
        self._busy = gate.busy or (answered and not asked and gate.contention.exclusive)

    @property
    def holder(self) -> Holder | None:
        """Who has it; None if no server has said so. Cost: a look at each hold of this process, if one of them has
        it.
        """
        gate, runtime = self._gate, self._gate.runtime
        if self._busy or self._kin is not None:
            held = (hold for hold in runtime.holds.values() if hold.home is gate and hold.reason is None)
            own = next(held, None) if self._kin is None else self._kin.hold
            if own is None:  # it was about to be held, or no longer is
                return Holder(gate.calls.name, runtime.binding.holder)
            return Holder(own.calls.name, *told(f"{runtime.binding.holder}\n{own.policy.metadata or ''}"))
        seen = self._seen
        if seen is None or not (seen.holder or seen.pttl):  # no majority of a quorum agreed
            return None
        return _said(gate, seen)

    @property
    def cause(self) -> AiolockError | None:
        """Why Redis cannot be reached, if it cannot."""
        return self._failure or self._gate.unreachable

    @property
    def unknown(self) -> bool:
        """Nobody is known to have it: no server has answered."""
        return not self._busy and self._kin is None and self._seen is None

    def error(self, timeout: float | None) -> AcquireTimeout | BackendError:
        """Return the error for a wait of this many seconds: another has the name, or no server has answered."""
        name, runtime = self._gate.calls.name, self._gate.runtime
        if self.unknown:
            seconds = min(timeout or math.inf, runtime.limits.request_timeout)
            away = self.cause if timeout == 0 else self._failure
            return runtime.unanswered(name, "acquiring", seconds, away, self._gate.calls.names)
        why, waited = self._why(), format_seconds(timeout or 0.0)
        error = AcquireTimeout(name, f"lock {name!r} was not acquired within {waited} s: {why}", self.holder)
        error.transient = self._kin is None
        error.__cause__ = self.cause
        return error

    def _why(self) -> str:
        seen, known = self._seen, self.cause
        if self._kin is not None:
            return self._kin.why
        if self._busy:
            what = "held" if self._gate.busy else "wanted first"
            return f"{what} by another task of this process ({self._gate.runtime.binding.holder})"
        assert seen is not None
        part = f"{seen.part!r} is " if seen.part else ""
        rank = f", and this was number {seen.rank} in the queue" if isinstance(seen, Queued) else ""
        since = "" if known is None else f"; since then {known}"
        return f"{part}held by {_said(self._gate, seen)}{rank}{since}"


def _said(gate: Gate, seen: Refused | Queued) -> Holder:
    return Holder(seen.part or gate.calls.name, *told(seen.holder))
