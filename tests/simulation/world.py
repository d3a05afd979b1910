"""Time, and what happens next: one heap of events, and one source of chance for each thing that is uncertain."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

from .history import History

START = 1_000.0
"""Seconds at which each run begins."""
TOO_MANY = 400_000
"""Events after which a run counts as one that never ends."""


class Violation(AssertionError):
    """The library broke a promise, or the simulation is wrong."""


FIXED = "fixed"
"""The noise of plans in which nothing is left to chance."""


class Fixed(Random):
    """No chance at all: always the middle. Bytes count up, so that ids differ."""

    def __init__(self) -> None:
        super().__init__(0)
        self._given = 0

    def random(self) -> float:
        return 0.5

    def shuffle(self, x: Any) -> None:
        """Leave it as it is."""

    def randbytes(self, n: int) -> bytes:
        self._given += 1
        return self._given.to_bytes(n, "big")


Taken = tuple[float, str, int]


class World:
    """The virtual clock and its events.

    Args:
        noise: the seed of all chances.

    Attributes:
        now: seconds.
        history: what has happened.
        violation: the first thing that must not happen; None as long as there was none.
        steps: the time, kind and process of each: a connection that is made, a delivery ("up" to the server, "down" to
            a process), or a callback of a loop ("turn").
        before_step: what happens right before the step of a number.
    """

    def __init__(self, noise: str) -> None:
        self.now = START
        self.history = History()
        self.violation: Violation | None = None
        self._noise = noise
        self._events: list[tuple[float, float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = itertools.count()
        self._ties = self.dice("ties")
        self.steps: list[Taken] = []
        self.before_step: dict[int, Callable[[], None]] = {}

    def dice(self, what: str) -> Random:
        """Return a source of chance that depends on nothing but the seed and its purpose."""
        if self._noise == FIXED:
            return Fixed()
        return Random(f"{self._noise}/{what}")  # text is hashed by hashlib, not by hash()

    def at(self, when: float, act: Callable[..., None], *args: Any) -> None:
        """Do something at a moment; the order of what falls together is drawn."""
        heapq.heappush(self._events, (max(when, self.now), self._ties.random(), next(self._count), act, args))

    def after(self, seconds: float, act: Callable[..., None], *args: Any) -> None:
        """Do something later."""
        self.at(self.now + seconds, act, *args)

    def step(self, kind: str, process: int) -> None:
        """A step is about to happen; first comes the fault that is planned for this moment."""
        act = self.before_step.pop(len(self.steps), None)
        self.steps.append((self.now, kind, process))
        if act is not None:
            act()

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
