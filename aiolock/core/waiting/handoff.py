"""A release that hands the name to the next task of this process: one round trip, and the server stays the arbiter."""

from __future__ import annotations

from ...errors import BackendError
from ...scripts.base import Call
from ...scripts.lock import LockCalls
from ...scripts.outcomes import Granted, Missing, Passed, Released, TransferOutcome
from ..holding.hold import Hold
from ..holding.release import Release
from .local_queue import LocalQueue
from .queue_entry import QueueEntry
from .wait import ASKED, ASKING


def hand_on(queue: LocalQueue, hold: Hold, release: Release) -> bool:
    """Release `hold` and hand the name to the process's next entry, in one request.

    During a process's turn that is the first in its queue, and the server keeps the name here. At the end of the turn
    the server grants it to the first of another process, and queues this one's entry, if any other process waits.

    Returns:
        False if `release` must be written: no task of this process waits, or the manager closes.
    """
    runtime = queue.runtime
    if queue.race is not None or not hold.calls.transfers or runtime.binding.closing:
        return False
    if queue.waiters and queue.common is None and queue.asking is None:
        heir = queue.enter(next(iter(queue.waiters)))
        over = queue.turn is None or queue.turn.hand_on(runtime.clock.now())
    else:
        found = queue.first_queued()
        if found is None:
            return False
        heir, over = found, True
        runtime.scheduler.forget(heir)
    heir.continues = not over
    queue.taken -= 1
    _Transfer(queue, hold, heir, over, release)
    return True


class _Transfer:
    """One hand-off on its way; writes its request at once.

    Args:
        queue: the waiters of the name.
        hold: what ends.
        heir: the entry that gets the name, or keeps its place in the queue.
        over: it is the turn of others, should any wait.
        release: told how the hold's end went; or written, if it must be.
    """

    __slots__ = ("_call", "_copied", "_heir", "_hold", "_over", "_owner", "_queue", "_ran", "_release")

    def __init__(self, queue: LocalQueue, hold: Hold, heir: QueueEntry, over: bool, release: Release) -> None:
        self._queue = queue
        self._hold = hold
        self._heir = heir
        self._owner = heir.owner
        self._over = over
        self._release = release
        self._copied = False  # an earlier copy went unanswered, and may have run
        self._ran = True  # or may have
        self._call: Call[TransferOutcome] = self._request(hold.tainted)
        self._call.unanswered, self._call.unrun = self._unanswered, self._unrun
        self._call.settle = self._settle
        heir.state = ASKING
        queue.runtime.backend.post(self._call)

    def _request(self, tainted: bool) -> Call[TransferOutcome]:
        hold, known = self._hold, self._hold.calls
        assert isinstance(known, LockCalls)  # no other kind can be transferred
        bid = self._heir.bid(self._heir.asker.liveness_ms)
        return known.transfer(hold.owner, hold.fence, bid, self._over, tainted)

    @property
    def _wanted(self) -> bool:
        return self._heir.owner == self._owner and self._heir.state in ASKED

    def _unanswered(self) -> bool:
        self._hold.tainted = True
        self._heir.taint()
        self._copied = True
        if not self._wanted:  # the heir is gone, and its undo follows: end both
            return False
        self._call.args = self._request(True).args
        return True

    def _unrun(self) -> bool:
        self._ran = self._wanted or self._copied
        return self._wanted

    def _settle(self, outcome: TransferOutcome | BackendError) -> None:
        queue, hold, heir = self._queue, self._hold, self._heir
        if not isinstance(outcome, BackendError):
            queue.replies += 1
        if isinstance(outcome, Granted | Passed):
            if self._wanted:  # first: its task runs before that of the hold that has ended
                heir.take(outcome, self._call.sent_at)
                if self._copied:  # it finds the place, and does not say that this process lives: the first one did
                    heir.verify()
            self._release.settle(Released(hold.fence))
            return
        if isinstance(outcome, Missing):
            self._release.resent = self._copied
            self._release.settle(outcome)
        else:
            # Unknown, refused, or the heir was undone before: whoever has it, neither keeps it. The hold ends first:
            # then a late copy of the transfer moves nothing.
            self._release.resent = self._ran and isinstance(outcome, BackendError)
            if hold.tainted:
                self._release.taint()
            self._release.write()
        if not self._wanted:
            return
        if isinstance(outcome, BackendError) and outcome.transient:
            queue.failed(heir, outcome)
        else:
            queue.renew_owner(heir)  # if it is refused what it asks for itself, too, all that wait are told
