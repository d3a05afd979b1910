"""How long the server may take to answer: one time limit for all that wait for it, and one timer."""

from __future__ import annotations

from typing import Protocol

from ..clock import Clock
from .scheduler import NEVER, Scheduler


class Impatient(Protocol):
    """A waiter for an answer."""

    def overdue(self) -> None:
        """The time is over."""


class Patience:
    """Tells those that have waited for too long.

    All may wait equally long, so they are in the order in which their times end, and the timer is the first one's. It
    is not reset for each that has its answer: nearly all have it long before.

    Args:
        clock: the clock of all its times.
        scheduler: the timer.
        seconds: how long.
    """

    __slots__ = ("_clock", "_scheduler", "_seconds", "_until", "_wake_at", "due")

    def __init__(self, clock: Clock, scheduler: Scheduler, seconds: float) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._seconds = seconds
        self._until: dict[Impatient, float] = {}
        self._wake_at = NEVER
        self.due: float = NEVER

    def begin(self, waiting: Impatient, sent_at: float = 0.0) -> None:
        """It waits from now on, or from the clock time `sent_at`, unless that is 0.0."""
        self._until[waiting] = until = (sent_at or self._clock.now()) + self._seconds
        if self.due == NEVER:
            self._wake(until)

    def end(self, waiting: Impatient) -> None:
        """It no longer waits."""
        self._until.pop(waiting, None)

    def on_due(self, now: float, late: float) -> None:
        over = []
        for waiting, until in self._until.items():
            if until > now >= self._wake_at:  # a call before its time is the last one: the scheduler stops
                self._wake(until)
                break
            over.append(waiting)
        for waiting in over:
            del self._until[waiting]
        for waiting in over:
            waiting.overdue()

    def _wake(self, when: float) -> None:
        self._wake_at = when
        self._scheduler.schedule(self, when)
