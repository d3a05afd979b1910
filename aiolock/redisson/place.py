"""A place in the queue of Redisson's fair lock: it is notified of its turn on a channel of its own."""

from __future__ import annotations

from typing import cast

from ..core.waiting.local_queue import LocalQueue
from ..core.waiting.queue_entry import QueueEntry
from ..core.waiting.race import ReleaseListener
from ..core.waiting.wait import ASKING, ENDED, QUEUED, TOLD
from ..core.waiting.waiter import Waiter
from ..errors import BackendError
from ..scripts.outcomes import AcquireOutcome, Passed, Queued
from ..scripts.redisson import FairCalls


class Place(QueueEntry):
    """What waits for a lock or a fair lock; only the latter is ever queued, and so listens.

    Args:
        queue: the name's local queue.
        owner: the id.
        asker: the waiter whose options it asks with.
        waiter: the only one that can take it; None for the first of the process when it is granted.
    """

    __slots__ = ("_listener",)

    def __init__(self, queue: LocalQueue, owner: str, asker: Waiter, waiter: Waiter | None) -> None:
        super().__init__(queue, owner, asker, waiter)
        self._listener: ReleaseListener | None = None

    def queued(self, outcome: Queued | Passed, sent_at: float) -> None:
        """See `QueueEntry`; from now on it listens."""
        super().queued(outcome, sent_at)
        if self.state is not QUEUED:
            return
        if self._listener is None:
            calls = cast(FairCalls, self.asker.calls)
            channel = calls.turn_channel(self.owner)
            self._listener = ReleaseListener(self.queue.runtime, channel, lambda _: False, self._turn)
        self._listener.listen()

    def take(self, outcome: AcquireOutcome | Passed | BackendError, sent_at: float) -> None:
        """See `QueueEntry`."""
        super().take(outcome, sent_at)
        if self.state is ENDED:
            self._hear_no_more()

    def rename(self, owner: str) -> None:
        """See `QueueEntry`: the new id has another channel."""
        self._hear_no_more()
        super().rename(owner)

    def end(self) -> None:
        """See `QueueEntry`."""
        self._hear_no_more()
        super().end()

    def _hear_no_more(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()

    def _turn(self) -> None:
        """It may be its turn, says the channel, or its confirmation: something may have been missed before that."""
        if self.state is QUEUED:
            self.ask()
        elif self.state is ASKING:
            self.state = TOLD
