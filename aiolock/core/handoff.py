"""A release that hands the lock to the next task of this process: one round trip, and the server stays the arbiter."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, cast

from ..errors import BackendError
from ..scripts.base import Call, Ending
from ..scripts.outcomes import Finished, Granted, Missing, Released, TransferOutcome
from .calls import HandoffCalls
from .hold import Hold
from .release import PendingRelease, ReleaseResult
from .waiter import Grant, Waiter

if TYPE_CHECKING:
    from .gate import Gate

YIELD_PAUSE = 0.05
"""Seconds for which the local queue leaves a lock to other processes after `handoff_limit` hand-offs in a row."""


class Handoff:
    """One name's hand-offs inside the process, and when it is the turn of others.

    Args:
        gate: the name's.
    """

    __slots__ = ("_began", "_gate", "_mark", "_others", "_released", "_streak")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._streak = 0  # in a row, without asking whether others wait
        self._began = -math.inf  # when the first of them was written
        self._others = 0  # managers that listened at the last transfer
        self._mark = 0.0  # seconds within which somebody who polls would try again, as of the last transfer
        self._released: ReleaseResult | None = None  # the last release to a local waiter, where there are no transfers

    def successor(self, hold: Hold, ending: Ending, result: ReleaseResult) -> Waiter | None:
        """Who gets the lock instead of a release; None if it must be released."""
        gate, limits = self._gate, self._gate.runtime.limits
        if ending != "clean" or hold.reason is not None or gate.runtime.closing:
            return None
        waiter = next((waiter for waiter in gate.waiters if not waiter.contending and not waiter.offer), None)
        if waiter is not None and self._streak >= limits.handoff_limit:
            self._streak = 0
            now = gate.runtime.clock.now()
            if self._wanted_elsewhere() or limits.handoff_limit == 0:
                # Who polls needs time to come by: as long as this process took, at most until the next attempt.
                gate.yield_until = now + max(YIELD_PAUSE, min(self._mark, now - self._began))
                return None
        if waiter is not None and not (gate.contention.handoff and gate.runtime.backend.nodes == 1):
            self._streak += 1  # it is released, and acquired by the next
            self._released = result
            return None
        return waiter

    def start(self, hold: Hold, waiter: Waiter, result: ReleaseResult) -> None:
        """Write the transfer."""
        runtime = self._gate.runtime
        request = partial(
            cast(HandoffCalls, hold.calls).transfer,
            hold.owner,
            hold.fence,
            waiter.owner,
            waiter.policy.ttl_ms,
            runtime.floor,
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
        call.settle = partial(self._settle, hold, waiter, owner, call, result)
        runtime.backend.post(call)

    def _wanted_elsewhere(self) -> bool:
        """Another process waits, or another queue of this one. Who waits for a quorum cannot be counted."""
        gate, last = self._gate, self._released
        others = last.outcome.others if last is not None and isinstance(last.outcome, Released) else self._others
        uncounted = gate.runtime.backend.nodes > 1 or self._mark > 0
        return uncounted or gate.ear.shared or others > gate.ear.listening

    def _settle(
        self,
        hold: Hold,
        waiter: Waiter,
        owner: str,
        call: Call[TransferOutcome],
        result: ReleaseResult,
        outcome: TransferOutcome | BackendError,
    ) -> None:
        gate = self._gate
        wanted = waiter in gate.waiters and waiter.owner == owner
        if isinstance(outcome, Granted):
            self._began = call.sent_at if self._streak == 0 else self._began
            self._streak += 1
            self._others = outcome.others
            self._mark = outcome.mark / 1000
            result.settle(Released(hold.fence))
            if wanted:
                waiter.grant = Grant(outcome, call.sent_at, waiter.policy.margin)
                waiter.poke()
            return
        if isinstance(outcome, Missing):
            result.settle(outcome, resent=hold.tainted)
        else:
            # Unknown, refused, or the successor was undone before: whoever has it, neither keeps it.
            unknown = isinstance(outcome, BackendError)
            PendingRelease(gate.runtime, hold.calls, hold.owner, hold.ttl_ms, 0, "clean", hold.tainted, result, unknown)
            if wanted and not isinstance(outcome, Finished):
                gate.undo(waiter)
        if wanted and waiter.offer:
            gate.withdraw_offer(waiter)
        gate.settle_down()
