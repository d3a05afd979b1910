"""One task that waits for a name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...errors import AiolockError, BackendError
from ...owner import STEP
from ...scripts.base import Call
from ...scripts.bid import Bid
from ...scripts.outcomes import AcquireOutcome, Granted, TransferOutcome
from ..calls import Calls
from ..policy import Policy
from ..scheduler import NEVER

if TYPE_CHECKING:
    from ..holding.hold import Hold
    from .local_queue import LocalQueue
    from .queue_entry import QueueEntry


FINAL_REFRESH = 0.1
"""Seconds before its timeout at which a waiter asks a last time; a quarter of the whole wait if that is less."""


class Expired(Exception):
    """The time to wait, or for a first answer, is over; or there will be no answer.

    Args:
        away: why not: the server cannot be reached.
        silent: the time for a first answer is over.
    """

    def __init__(self, away: AiolockError | None = None, silent: bool = False) -> None:
        self.away: AiolockError | None = away
        self.silent: bool = silent


class Waiter:
    """One task's wait for a name: it ends with a grant, with a refusal, or with an error.

    If nobody of its process is before it, it asks by itself, and is mostly granted at once. Whatever else becomes of
    that request, an entry adopts it.

    Args:
        queue: the name's local queue.
        calls: requests of this acquisition's weight.
        policy: how it wants to hold the name.
        timeout: seconds to wait; None for no limit, 0 for one attempt.
        patient: an outage does not end the wait; otherwise the server must answer within `request_timeout`.

    Attributes:
        patient: see above.
        began: clock time at which it came.
        task: the task.
        replies: how often the server had answered when it came.
        queues: it waits for its turn; otherwise it is refused if the name is held.
        liveness_ms: how long its request says that this process waits; 0: no server keeps it a place.
        entry: the entry in the server's queue that is its own, or that it was granted; None while it shares its
            process's.
        asked: its process asked for it when it came.
        call: its own request, while that is on its way, and no entry has adopted it; None if there is none.
        owner: the id with which it asks so.
        adopted: the entry that goes on with the request, while that is on its way. The request keeps its callbacks, as
            the backend may have wrapped them.
        outcome: done with the grant; or with the refusal.
        hold: what it was granted, until its task has it.
        wait: its number, if observers were told that it waits; otherwise 0.
    """

    __slots__ = (
        "_expires",
        "_queue",
        "adopted",
        "asked",
        "began",
        "call",
        "calls",
        "due",
        "entry",
        "hold",
        "liveness_ms",
        "metadata",
        "outcome",
        "owner",
        "patient",
        "policy",
        "queues",
        "replies",
        "task",
        "wait",
    )

    owner: str
    adopted: QueueEntry | None
    tainted = wanted = revoked = False  # otherwise an entry has adopted its request
    queue_number = 0

    def __init__(self, queue: LocalQueue, calls: Calls, policy: Policy, timeout: float | None, patient: bool) -> None:
        runtime, metadata = queue.runtime, policy.metadata
        self._queue = queue
        self.patient: bool = patient
        self.replies: int = queue.replies
        self.calls: Calls = calls
        self.policy: Policy = policy
        self.metadata: str = runtime.binding.holder if metadata is None else f"{runtime.binding.holder}\n{metadata}"
        self.queues: bool = timeout != 0
        self.liveness_ms: int = runtime.limits.liveness_ms if self.queues and calls.queues else 0
        self.asked: bool = False
        self.began: float = runtime.clock.now()
        self.task: asyncio.Task[object] | None = asyncio.current_task(runtime.binding.loop)
        self.wait: int = 0
        self.entry: QueueEntry | None = None
        self.call: Call[AcquireOutcome] | None = None
        self.hold: Hold | None = None
        self.outcome: asyncio.Future[AcquireOutcome | TransferOutcome] = asyncio.Future(loop=runtime.binding.loop)
        self.due: float = NEVER
        self._expires = NEVER
        if timeout:
            self._expires = self.began + timeout
            runtime.scheduler.schedule(self, self._expires - min(FINAL_REFRESH, timeout / 4))
        if not patient:
            self._expect_answer(self.began)

    @property
    def impatient(self) -> bool:
        """An outage is its error: it does not wait, or the server has not answered since it came and must answer in
        time.
        """
        return not self.queues or (not self.patient and self._queue.replies == self.replies)

    @property
    def place(self) -> float:
        """Clock time: those with an earlier one are served before."""
        return self.began - STEP * self.policy.priority

    @property
    def answers(self) -> int:
        """How many answers of the server its own request has got."""
        return int(self.hold is not None)

    @property
    def waited(self) -> bool:
        """Whether another answer came before its grant, or another task of its process had the name."""
        return self.entry is not None and (not self.asked or self.entry.wait is not None)

    # Its own request, as long as nothing else than its grant has become of it.

    def ask(self) -> None:
        """Ask for the name."""
        queue, policy, runtime = self._queue, self.policy, self._queue.runtime
        self.owner = runtime.binding.new_owner(self.calls.mark, policy.ttl_ms, self.liveness_ms, policy.priority)
        floor, told = runtime.fences.floor, runtime.waiting.told
        bid = Bid(self.owner, policy.ttl_ms, floor, self.metadata, self.liveness_ms, told)
        self.call = call = self.calls.acquire(bid)
        call.settle, call.unanswered, call.unrun, call.away = self._answered, self._unanswered, self._wants, queue.away
        self.adopted = None
        queue.asking = runtime.queue_entries[self.owner] = self
        runtime.backend.post(call)

    def _answered(self, outcome: AcquireOutcome | BackendError) -> None:
        queue, call, entry = self._queue, self.call, self.adopted
        if call is None or type(outcome) is not Granted:
            self.adopted = None
            (entry or queue.adopt(self)).answered(outcome)
            return
        queue.replies += 1
        queue.asking = queue.turn = self.call = None
        queue.waiters.clear()  # it was the only one
        queue.begin(self, self, outcome, call.sent_at)

    def _unanswered(self) -> bool:
        return (self.adopted or self._queue.adopt(self)).unanswered()

    def _wants(self) -> bool:
        return self.adopted is None or self.adopted.wants()

    def told(self, fence: int) -> None:
        """See `WaitingEntry`."""
        self._queue.adopt(self).told(fence)

    def revoke(self) -> None:
        """See `WaitingEntry`."""
        self._queue.adopt(self).revoke()

    def want(self) -> None:
        """See `WaitingEntry`."""
        self._queue.adopt(self).want()

    def verify(self) -> None:
        """See `WaitingEntry`: it asks already."""

    # Its time.

    def wait_again(self) -> None:
        """What it was granted is lost: it waits again."""
        runtime = self._queue.runtime
        self.entry = self.hold = None
        self.outcome = asyncio.Future(loop=runtime.binding.loop)
        if self.due == NEVER:  # its time was over before its task ran
            runtime.scheduler.schedule(self, self._expires)
        if not (self.patient or self in runtime.patience.until):
            self._expect_answer(runtime.clock.now())

    def _expect_answer(self, now: float) -> None:
        patience = self._queue.runtime.patience
        patience.until[self] = until = now + patience.seconds
        if patience.due == NEVER:
            patience.wake(until)

    def fail(self, error: BaseException) -> None:
        """End the wait with an error."""
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()  # a cancelled task does not retrieve it

    def stop(self) -> None:
        """It no longer waits."""
        runtime = self._queue.runtime
        runtime.patience.until.pop(self, None)
        runtime.scheduler.forget(self)

    def overdue(self) -> None:
        """The server had its time for a first answer."""
        if self.impatient:
            self.fail(Expired(silent=self.queues))

    def on_due(self, now: float, late: float) -> None:
        if now >= self._expires:
            self.fail(Expired())
        elif not self.outcome.done():
            self._queue.refresh(self)
            self._queue.runtime.scheduler.schedule(self, self._expires)
