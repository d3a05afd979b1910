"""Why an acquisition failed: in words, and as data."""

from __future__ import annotations

import math

from ..clock import format_seconds
from ..errors import AcquireTimeout, AiolockError, BackendError, Holder
from ..scripts.outcomes import Queued, Refused
from .gate import Gate
from .holding.hold import Hold
from .waiting.queue_entry import QueueEntry


class Refusal:
    """Why a name was not available, as far as this process knows.

    Args:
        gate: the name's.
        entry: what asked for it; None if nothing did, because a task of this process was first.
        ancestor: what an ancestor of the task holds, so that it would wait for itself.
        answered: the task awaits no answer: a server has answered since it came, or it did not ask. If there was no
            refusal, another task of this process is before it.
    """

    __slots__ = ("_ancestor", "_busy", "_failure", "_gate", "_seen")

    def __init__(
        self, gate: Gate, entry: QueueEntry | None, ancestor: Hold | None = None, answered: bool = False
    ) -> None:
        self._gate = gate
        self._ancestor = ancestor
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
        if self._busy or self._ancestor is not None:
            held = (hold for hold in runtime.holds.values() if hold.home is gate and hold.reason is None)
            own = self._ancestor or next(held, None)
            if own is None:  # it was about to be held, or no longer is
                return Holder(gate.calls.name, runtime.binding.holder)
            return Holder(own.calls.name, runtime.binding.holder, own.policy.metadata)
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
        return not self._busy and self._ancestor is None and self._seen is None

    def error(self, timeout: float | None) -> AcquireTimeout | BackendError:
        """Return the error for a wait of this many seconds: another has the name, or no server has answered."""
        name, runtime = self._gate.calls.name, self._gate.runtime
        if self.unknown:
            seconds = min(timeout or math.inf, runtime.limits.request_timeout)
            away = self.cause if timeout == 0 else self._failure
            return runtime.unanswered(name, "acquiring", seconds, away, self._gate.calls.names)
        why, waited = self._why(), format_seconds(timeout or 0.0)
        error = AcquireTimeout(name, f"lock {name!r} was not acquired within {waited} s: {why}", self.holder)
        error.__cause__ = self.cause
        return error

    def _why(self) -> str:
        seen, known = self._seen, self.cause
        if self._ancestor is not None:
            if self._ancestor.home is self._gate:
                return "a task that started this one holds it: pass owner=lease.owner to acquire() to share it"
            return f"a task that started this one holds {self._ancestor.calls.name!r}, which overlaps with it"
        if self._busy:
            what = "held" if self._gate.busy else "wanted first"
            return f"{what} by another task of this process ({self._gate.runtime.binding.holder})"
        assert seen is not None
        part = f"{seen.part!r} is " if seen.part else ""
        rank = f", and this was number {seen.rank} in the queue" if isinstance(seen, Queued) else ""
        since = "" if known is None else f"; since then {known}"
        return f"{part}held by {_said(self._gate, seen)}{rank}{since}"


def _said(gate: Gate, seen: Refused | Queued) -> Holder:
    process, _, metadata = seen.holder.partition("\n")
    return Holder(seen.part or gate.calls.name, process, metadata or None)
