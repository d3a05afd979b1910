"""Time, and what happens next: one heap of events, and one source of chance for each thing that is uncertain."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

from .history import History

TOO_MANY = 400_000
"""Events after which a run counts as one that never ends."""


class Violation(AssertionError):
    """The library broke a promise, or the simulation is wrong."""


class World:
    """The virtual clock and its events.

    Args:
        noise: the seed of all chances.

    Attributes:
        now: seconds.
        history: what has happened.
        violation: the first thing that must not happen; None as long as there was none.
    """

    def __init__(self, noise: str) -> None:
        self.now = 1_000.0
        self.history = History()
        self.violation: Violation | None = None
        self._noise = noise
        self._events: list[tuple[float, float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = itertools.count()
        self._ties = self.dice("ties")

    def dice(self, what: str) -> Random:
        """Return a source of chance that depends on nothing but the seed and its purpose."""
        return Random(f"{self._noise}/{what}")  # text is hashed by hashlib, not by hash()

    def at(self, when: float, act: Callable[..., None], *args: Any) -> None:
        """Do something at a moment; the order of what falls together is drawn."""
        heapq.heappush(self._events, (max(when, self.now), self._ties.random(), next(self._count), act, args))

    def after(self, seconds: float, act: Callable[..., None], *args: Any) -> None:
        """Do something later."""
        self.at(self.now + seconds, act, *args)

    def run(self, until: float, done: Callable[[], bool]) -> None:
        """Let time pass until then, or until `done`.

        Raises:
            Violation: something must not have happened.
        """
        events = self._events
        while events and events[0][0] <= until and self.violation is None and not done():
            if next(self._count) > TOO_MANY:
                self.fail("it does not come to an end")
                break
            self.now, _, _, act, args = heapq.heappop(events)
            act(*args)
        if self.violation is not None:
            raise self.violation

    def fail(self, why: str) -> None:
        """Note a violation; the first one counts."""
        if self.violation is None:
            self.note("violation", why)
            self.violation = Violation(why)

    def note(self, what: str, detail: str = "", who: str = "") -> None:
        """Add to the history."""
        self.history.add(self.now, what, who, detail)
