"""One owner's way to a grant: it asks, may be queued by the server, and is granted or given up."""

from __future__ import annotations

from logging import WARNING
from typing import TYPE_CHECKING, Any

from ...errors import BackendError
from ...log import Line, Log
from ...scripts.base import Call, Ending, Part
from ...scripts.bid import Bid
from ...scripts.outcomes import AcquireOutcome, Failed, Finished, Granted, Lost, Passed, Queued
from ..calls import Batch, Calls
from ..holding.release import Release
from ..holding.telling import tell_granted
from ..renewals import Renewable
from ..scheduler import NEVER
from .wait import ASKED, ASKING, ENDED, IDLE, QUEUED, TOLD, State, Wait
from .waiter import Waiter

if TYPE_CHECKING:
    from .local_queue import LocalQueue


UNHEARD: Line = Line(
    Log("aiolock.queue"),
    WARNING,
    "could not say that this process still waits for lock %(lock_name)r, trying again: %(error)s",
    "could not say that this process still waits for %(count)d more locks: %(lock_names)s",
)


class QueueEntry:
    """What one owner id asks for, until its grant or its end; it may begin with what a waiter has asked for by itself.

    A grant out of the queue comes on the manager's channel. It lasts for a moment only: the entry asks, which makes it
    last for the ttl of the waiter that takes it. Only the answer to a request that asks lets a task in, so no block
    begins with less than the server has said it has. The next refresh makes up for a lost message. No message says that
    a holder has expired: the first in the queue asks then.

    Args:
        queue: the name's local queue.
        owner: the id.
        asker: the waiter whose options it asks with: whoever would take it.
        waiter: the only one that can take it; None for the first of the process when it is granted.

    Attributes:
        tainted: a request of the owner went unanswered.
        wanted: another has asked its holder to finish, before it was one.
        revoked: what it is granted was ended by force, says a message that came before the answer.
        undoing: how the server is told that a grant is undone.
        wait: the answers so far that were no grant; None before that.
        continues: it was handed on in the middle of this process's turn.
    """

    __slots__ = (
        "_call",
        "_heard",
        "_release",
        "_states",
        "asker",
        "continues",
        "due",
        "owner",
        "queue",
        "revoked",
        "state",
        "tainted",
        "undoing",
        "wait",
        "waiter",
        "wanted",
    )

    def __init__(self, queue: LocalQueue, owner: str, asker: Waiter, waiter: Waiter | None) -> None:
        self.queue: LocalQueue = queue
        self.owner: str = owner
        self.asker: Waiter = asker
        self.waiter: Waiter | None = waiter
        self.state: State = IDLE
        self.wait: Wait | None = None
        self.tainted: bool = False
        self.wanted: bool = False
        self.revoked: bool = False
        self.undoing: Ending = "undone"
        self.due: float = NEVER
        self.continues: bool = False
        self._call: Call[Any] | None = None
        self._release: Release | None = None
        self._heard = False  # a request of its own was answered
        self._states = True  # its request says that its process is alive

    @property
    def queue_number(self) -> int:
        """Its number in the queue, if the client keeps it."""
        return 0 if self.wait is None else self.wait.queue_number

    @property
    def answers(self) -> int:
        """How many answers of the server it has got."""
        return int(self._heard) if self.wait is None else self.wait.attempts

    @property
    def refused(self) -> bool:
        """Whether the server has said that another has the name."""
        return self.wait is not None and self.wait.refusal is not None

    def waits(self) -> Wait:
        """The state of its wait, which begins now if it had not begun."""
        self.wait = self.wait or self.queue.begin_wait(self)
        return self.wait

    @property
    def begun(self) -> Calls:
        """Requests about all that it has asked for, with which it is undone."""
        return self.asker.calls

    @property
    def known(self) -> bool:
        """Whether a server has anything of it, by its answers."""
        return self.wait is not None and self.wait.sent_at is not None

    def rename(self, owner: str) -> None:
        """Its id can get nothing any more: continue with another, that no server knows; its number stays its own."""
        self.owner, self.state, self.tainted, self.wanted = owner, IDLE, False, False
        if self.wait is not None:
            self.wait.sent_at = None

    # Asking.

    def ask(self) -> None:
        """Ask for the name; if it is held, the answer says that the entry was queued."""
        queue, runtime = self.queue, self.queue.runtime
        self.asker = asker = queue.taker(self) or self.asker
        liveness_ms = asker.liveness_ms
        if self.waiter is not None and liveness_ms and asker.calls.one_refresh:  # one heartbeat is enough for all
            self._states = runtime.clock.now() > queue.stated_at + runtime.limits.liveness / 3
            liveness_ms = liveness_ms if self._states else -liveness_ms
        self.request(asker.calls.acquire(self.bid(liveness_ms, self.queue_number)))

    def bid(self, liveness_ms: int, number: int = 0) -> Bid:
        """Return what it asks for; `Bid` says what these are."""
        runtime, asker = self.queue.runtime, self.asker
        ttl_ms, floor, told = asker.policy.ttl_ms, runtime.fences.floor, runtime.waiting.told
        return Bid(self.owner, ttl_ms, floor, asker.metadata, liveness_ms, told, number)

    def request(self, call: Call[Any]) -> None:
        """Write a request that may grant or queue the owner."""
        self.state, self._call, self.revoked = ASKING, call, False
        call.unanswered, call.unrun = self.unanswered, self.wants
        call.settle, call.away = self.answered, self.queue.away
        self.queue.runtime.backend.post(call)

    def adopt(self, call: Call[Any]) -> None:
        """Continue what its asker has asked for by itself."""
        self.state, self._call = ASKING, call

    def pause(self) -> None:
        """The server gave no verdict: ask again, a little later each time."""
        self.ask_at(self.queue.runtime.clock.now() + self.waits().unanswered())

    def ask_at(self, due: float) -> None:
        """Ask again at clock time `due`."""
        self.state = IDLE
        self.queue.runtime.scheduler.schedule(self, due)

    def unanswered(self) -> bool:
        """The connection died under its request: write it again, unless it is undone; its end leaves a tombstone."""
        self.taint()
        return self.wants()

    def wants(self) -> bool:
        """Whether it still wants what it has asked for."""
        return self.state is not ENDED

    def answered(self, outcome: AcquireOutcome | BackendError) -> None:
        """The outcome of its request."""
        queue, call = self.queue, self._call
        assert call is not None
        self._call = None
        if not isinstance(outcome, BackendError):
            queue.replies += 1
            self._heard = True
        self.take(outcome, call.sent_at)

    def take(self, outcome: AcquireOutcome | Passed | BackendError, sent_at: float) -> None:
        """The outcome of a request that was written at `sent_at`."""
        state = self.state
        if state not in ASKED:
            return  # given up
        self.state = ASKING
        if isinstance(outcome, Granted):
            if self.wait is not None:
                self.wait.attempts += 1
            self.queue.granted(self, outcome, sent_at)
        elif isinstance(outcome, Queued | Passed):
            self.queued(outcome, sent_at)
            if state is not ASKING and self.state is QUEUED:
                self.ask()
        elif isinstance(outcome, BackendError):
            self.queue.failed(self, outcome)
        elif isinstance(outcome, Finished | Lost):
            self.queue.renew_owner(self)
        else:
            self.queue.refused(self, outcome)

    # Waiting in the server's queue.

    def queued(self, outcome: Queued | Passed, sent_at: float) -> None:
        """The server said so, in its answer to what was written at `sent_at`."""
        if self.asker.calls.one_refresh and self.queue_number not in (0, outcome.queue_number):
            self.queue.renew_owner(self)  # the server had lost its place, and put it at the end
            return
        self.state = QUEUED
        self.waits().queued(outcome, sent_at)
        self.queue.runtime.queue_entries.stands(self.asker.calls, self.asker.liveness_ms)
        if isinstance(outcome, Queued):
            self.queue.runtime.fences.heard(outcome.fence)
        if self._states:
            self.queue.stated_at = sent_at
        if self is self.queue.first_queued():
            self.queue.seen_at = sent_at
        self._states = True  # as all later requests do
        if outcome.pttl == 0:
            self.verify()  # more come and go than one request may admit or end
        else:
            self.schedule()

    def told(self, fence: int) -> None:
        """A message says that the owner was granted, with this fence."""
        if self.state is ASKING:
            self.state = TOLD
        elif self.state in (QUEUED, IDLE):
            self.ask()
        else:
            return
        tell_granted(self.queue.runtime, self.asker.calls, self.owner, fence)

    def revoke(self) -> None:
        """What it was granted was ended by force; the answer to its request may not know that."""
        self.revoked = True
        self.verify()

    def want(self) -> None:
        """Another asks its holder to finish: the server has granted to it, and the answer is on its way."""
        self.wanted = True

    def verify(self) -> None:
        """Ask the server at once: a message may have been missed."""
        if self.state is QUEUED:
            first = self.queue.first_queued() if self.asker.calls.one_refresh else self
            self.queue.schedule_refresh(first or self, self.queue.runtime.clock.now())

    def schedule(self) -> None:
        """Say in time that it still waits."""
        runtime = self.queue.runtime
        now, wait = runtime.clock.now(), self.waits()
        pause = min(runtime.limits.liveness / 3, self.asker.policy.ttl / 3, runtime.limits.recheck)
        pause = runtime.waiting.pause(pause, wait.attempts)
        pause = min(pause, wait.backoff) if wait.failures else pause
        # With the manager's other entries; and however fast the first follow each other, as only they learn of a loss.
        since = max(self.queue.seen_at, now - pause) if self.asker.calls.one_refresh and not wait.failures else now
        due = min(runtime.queue_entries.next_refresh(since + pause / 2, since + pause), wait.free_at)
        self.queue.schedule_refresh(self, due)

    # As the scheduler sees it.

    def on_due(self, now: float, late: float) -> Renewable | None:
        if self.state is IDLE:
            self.queue.ask(self)
        return self if self.state is QUEUED else None

    def part(self) -> tuple[Batch, Part]:
        calls = self.asker.calls
        return calls.refresh_many, calls.refresh(self.bid(self.asker.liveness_ms, self.queue_number))

    def judged(self, outcome: Any, sent_at: float) -> None:
        if self.state is not QUEUED:
            return  # what ended it was written after this request
        self.queue.replies += 1
        if isinstance(outcome, Queued):
            self.queued(outcome, sent_at)
        elif isinstance(outcome, Granted):
            self.ask()
        elif isinstance(outcome, Failed):
            self.unknown(BackendError(self.asker.calls.name, outcome.error, outcome.transient))
        else:
            self.queue.renew_owner(self)

    def unknown(self, error: BackendError) -> None:
        if self.state is not QUEUED:
            self.taint()
            return
        runtime, name, wait = self.queue.runtime, self.asker.calls.name, self.waits()
        if wait.failure is None and self is self.queue.first_queued():
            runtime.warn(UNHEARD, name, error)
        self.tainted, wait.failure, wait.failures = True, error, wait.failures + 1
        stated_at = self.queue.stated_at if self.asker.calls.one_refresh else wait.sent_at
        assert stated_at is not None  # it is queued
        if error.transient or runtime.clock.now() < stated_at + runtime.limits.liveness:
            self.schedule()
        else:
            self.queue.renew_owner(self)  # it counts as dead by now: a new attempt is told why

    # Its end.

    def end(self) -> None:
        """Give up: undo whatever the server has granted or queued, or will."""
        state, call, runtime = self.state, self._call, self.queue.runtime
        if state is ENDED:
            return
        idle, self.state = state is IDLE, ENDED
        runtime.queue_entries.pop(self.owner, None)
        self.queue.left(self)
        if call is not None and state is ASKING and call.withdraw():
            idle = not self.known
        if not idle or self.tainted:  # otherwise no server has anything of it
            self._release = self.undo()

    def undo(self) -> Release:
        """End its id, and take back what that has or gets."""
        runtime, asker = self.queue.runtime, self.asker
        runtime.ending.add(self.owner)
        # What it asked last may have queued it, and no one looks at the answer.
        runtime.queue_entries.stands(asker.calls, asker.liveness_ms)
        release = Release(runtime, self.begun, self.owner, asker.policy.ttl_ms, self.undoing, self.tainted)
        release.lasting = self.known  # its place has no ttl: the server keeps it for as long as this process lives
        release.write()
        return release

    def taint(self) -> None:
        """A request of the owner went unanswered, and may still reach the server: its end leaves a tombstone."""
        # If it did, the next answer need not tell.
        self.queue.runtime.queue_entries.stands(self.asker.calls, self.asker.liveness_ms)
        self.tainted, hold = True, self.queue.runtime.holds.get(self.owner)
        if self._release is not None:
            self._release.taint()  # it may still be unwritten
        elif hold is not None:
            hold.tainted = True
