"""The library, broken on purpose where only one moment shows it; each with the scene and the fault that does."""

from __future__ import annotations

import pytest

from aiolock import AiolockError, LossReason
from aiolock.backends.coordinator import CoordinatorBackend
from aiolock.backends.coordinator.store import OwnPlace
from aiolock.backends.transactional.engine import Unavailable
from aiolock.core.holding.hold import Hold
from aiolock.core.holding.release import Release
from aiolock.core.waiting import handoff
from aiolock.core.waiting.queue_entry import QueueEntry

from ..mutations import Mutation, deadline_from_arrival, grant_dropped, resent_ignored, unasked
from ..plan import Fault
from ..queues import SimulatedQueues
from .faults import ALL_CHUNKS, LATE


def untainted(patch: pytest.MonkeyPatch) -> None:
    """A request that went unanswered leaves no tombstone when its owner ends."""
    patch.setattr(QueueEntry, "unanswered", QueueEntry.wants)


def transfer_unjudged(patch: pytest.MonkeyPatch) -> None:
    """A hand-off whose fate is unknown writes no release after it."""
    settle, write = handoff._Transfer._settle, Release.write
    muted: list[Release] = []

    def settled(self: handoff._Transfer, outcome: object) -> None:
        muted.append(self._release)
        settle(self, outcome)  # type: ignore[arg-type]
        muted.remove(self._release)

    patch.setattr(Release, "write", lambda self, left=0: None if self in muted else write(self, left))
    patch.setattr(handoff._Transfer, "_settle", settled)


def revoked_ignored(patch: pytest.MonkeyPatch) -> None:
    """A grant that was ended by force before its task ran is taken."""
    lose = Hold.lose

    def kept(self: Hold, reason: LossReason) -> None:
        if self.entered or reason is not LossReason.REVOKED:
            lose(self, reason)

    patch.setattr(Hold, "lose", kept)


def return_untold(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks again when a store of queues is back."""
    patch.setattr(CoordinatorBackend, "_back", lambda self: setattr(self, "unreachable", None))


def places_untainted(patch: pytest.MonkeyPatch) -> None:
    """A place that was asked for without an answer is given up as one that was not."""
    leave = SimulatedQueues.leave

    async def unaware(self: SimulatedQueues, own: OwnPlace, clean: bool) -> bool:
        own.tainted = False
        return await leave(self, own, clean)

    patch.setattr(SimulatedQueues, "leave", unaware)


def doubt_forgotten(patch: pytest.MonkeyPatch) -> None:
    """What a database did not answer counts as not done."""
    begin = Unavailable.__init__

    def sure(self: Unavailable, error: AiolockError, ran: bool = False, lost: bool = False) -> None:
        begin(self, error, False, lost)

    patch.setattr(Unavailable, "__init__", sure)


MUTANTS: dict[Mutation, tuple[str, Fault]] = {
    untainted: ("wait-ghosts", Fault("sever", 0.0, 1, 0.4, ALL_CHUNKS)),
    transfer_unjudged: ("local", Fault("refuse", 0.0, 0, 0.2)),
    revoked_ignored: ("forced", Fault("late_down", 0.0, 1, LATE)),
    grant_dropped: ("local", Fault("cancel", 0.0)),
    resent_ignored: ("wait", Fault("lose_reply", 0.0, 0)),
    deadline_from_arrival: ("wait", Fault("hold", 0.0, 1, 0.2, 1)),
    unasked: ("wait", Fault("hold", 0.0, 1, 0.2, 1)),
    return_untold: ("wait-queues", Fault("sever", 0.0, 1)),
    doubt_forgotten: ("wait-rows-ghosts", Fault("lose_reply", 0.0, 0)),
    places_untainted: ("wait-queues-ghosts", Fault("sever", 0.0, 0, 0.4, ALL_CHUNKS)),
}
"""Each with the scene in which it shows, and the fault that shows it at one step at least.

Two more guards were broken, and nothing came of it. A hand-off that is repeated although its heir has given up grants
to an owner whose undo follows on the same connection, or whose tombstone refuses it. A renewal that is read past the
deadline may move that: the server did renew, and on one loop nobody has looked in between.
"""
