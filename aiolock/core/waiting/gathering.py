"""How one owner gets to hold several names, each of which others want, too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from ...scripts.base import Part
from ...scripts.multi import MultiCalls
from ...scripts.outcomes import Gone, Granted, Passed, Queued
from ..calls import Batch
from ..renewals import Renewable
from .queue_entry import QueueEntry
from .wait import ASKING, QUEUED

if TYPE_CHECKING:
    from .local_queue import LocalQueue
    from .waiter import Waiter


SHARE = 0.25
"""How long it keeps names that it cannot use yet, as a share of the time that it has waited. Keeping them for longer
than others hold them succeeds; a time that is too short fails often, and costs the others more.
"""
SHORTEST = 0.02
"""The least time, in seconds, for which it keeps them: others are kept from a name for a turn, too."""
LONGEST = 10.0
"""The longest time, in seconds, for which it keeps them."""


class Gathering(QueueEntry):
    """An entry that wants several names at once.

    At first it stands: it has nothing, and one place, in the queue of the name with the oldest hold. Once it is granted
    that name it gathers: each request keeps what it has reserved, reserves what is free, takes what younger ones have
    reserved, and queues for the others. A message, or the answer to a refresh, only says that it is time to ask: a
    reservation is not a hold, and may be taken away at any time. Only a request that is granted all names ends the
    wait.

    If it gathers without success for too long, it returns what it has, and stands again. Its number is the same in all
    queues and permanently, even with another owner id: so it gets older than all others, and then no one takes anything
    from it.

    Args:
        queue: the names' local queue.
        owner: the id.
        asker: the waiter whose options it asks with.
        waiter: the only one that can take it; None for the first of the process when it is granted.
    """

    __slots__ = ("_again", "_began", "_limit", "_number", "_part")

    def __init__(self, queue: LocalQueue, owner: str, asker: Waiter, waiter: Waiter | None) -> None:
        super().__init__(queue, owner, asker, waiter)
        self._began = queue.runtime.clock.now()
        self._begin_group()

    def _begin_group(self) -> None:
        """It has none of the names that it asks for."""
        self._number = 0
        self._part = ""  # the name that is in the way for the longest; while it stands, the name where it queues
        self._again = False  # something happened since the request on its way was written
        self._limit = math.inf  # clock time at which it returns what it has; never if it has nothing

    # Asking.

    def ask(self) -> None:
        """Ask for all names: one request at a time."""
        asker = self.queue.taker(self) or self.asker
        self.asker: Waiter = asker
        if self._number:  # this may give it something
            self._gather()
        self._again = False
        self.request(self._calls.acquire(self.bid(asker.liveness_ms, self._number)))

    def verify(self) -> None:
        """Ask at once: something may have changed."""
        if self.state is QUEUED:
            self.ask()
        elif self.state is ASKING:
            self._again = True

    def told(self, fence: int) -> None:
        """A message says that one of the names is reserved for it."""
        self.verify()

    @property
    def _calls(self) -> MultiCalls:
        return cast(MultiCalls, self.asker.calls)

    # Waiting.

    def queued(self, outcome: Queued | Passed, sent_at: float) -> None:
        """The server said so, in its answer to what was written at `sent_at`."""
        assert isinstance(outcome, Queued)
        if not outcome.part:  # for a refresh
            outcome = outcome._replace(part=self._part)
        else:
            self._part, self._number = outcome.part, outcome.queue_number
        super().queued(outcome, sent_at)
        if self.state is not QUEUED:
            return
        if self.queue.runtime.clock.now() >= self._limit:
            self._give_back()
        if self._again:
            self.ask()

    def schedule(self) -> None:
        """Say in time that it still waits; ask in time, and give back in time."""
        super().schedule()
        if self._limit < self.due:
            self.queue.runtime.scheduler.schedule(self, self._limit)

    def _gather(self) -> None:
        """From now on it may have something."""
        if self._limit == math.inf:
            now = self.queue.runtime.clock.now()
            self._limit = now + max(SHORTEST, min(LONGEST, SHARE * (now - self._began)))

    def _give_back(self) -> None:
        """Leave what it has to the next in line, and all places but one."""
        call = self._calls.give_back(self.owner, self.asker.policy.ttl_ms, self._part)
        call.unanswered = lambda: self.state is QUEUED  # otherwise it asks for more, or has ended
        self.queue.runtime.backend.post(call)
        self._limit = math.inf
        self.schedule()

    # As the scheduler sees it.

    def on_due(self, now: float, late: float) -> Renewable | None:
        if self.state is not QUEUED or self._limit == math.inf:
            return super().on_due(now, late)
        if now >= self._limit:
            self._give_back()
        else:
            self.ask()
        return None

    def part(self) -> tuple[Batch, Part]:
        calls = self._calls
        return calls.refresh_many, calls.refresh(self.bid(self.asker.liveness_ms, self._number), self._part)

    def judged(self, outcome: Any, sent_at: float) -> None:
        if self.state is QUEUED and isinstance(outcome, Granted | Gone):
            self.queue.replies += 1
            self.ask()
        else:
            super().judged(outcome, sent_at)
