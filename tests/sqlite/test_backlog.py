"""Messages for receivers that are full: they get them, and one that stands still costs others next to nothing."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from aiolock.backends.sqlite.backlog import AGE, Backlog


class Later:
    """A loop's timers, and a time that only goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, int, Timer]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
        timer = Timer(callback)
        heapq.heappush(self.timers, (self.now + delay, len(self.timers), timer))
        return timer

    def run(self, until: float) -> None:
        while self.timers and self.timers[0][0] <= until:
            self.now, _, timer = heapq.heappop(self.timers)
            if not timer.cancelled:
                timer.callback()
        self.now = until


class Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Receivers:
    """They take as many messages as there is room for."""

    def __init__(self) -> None:
        self.room: dict[str, int] = {}
        self.got: list[tuple[str, bytes]] = []
        self.attempts = 0

    def __call__(self, name: str, data: bytes) -> bool:
        self.attempts += 1
        if not self.room.get(name):
            return False
        self.room[name] -= 1
        self.got.append((name, data))
        return True


def test_a_receiver_that_stands_still() -> None:
    """Its messages are tried seldom, and given up. Kept by backoff and AGE."""
    later, receivers = Later(), Receivers()
    backlog = Backlog(later, receivers)  # type: ignore[arg-type]
    for number in range(500):
        backlog.keep("stopped", b"%d" % number)
    later.run(AGE)
    assert receivers.attempts < 40
    later.run(2 * AGE)
    assert not later.timers
    receivers.room["stopped"] = 1000
    backlog.keep("stopped", b"news")
    later.run(3 * AGE)
    assert receivers.got == [("stopped", b"news")]


def test_a_receiver_beside_one_that_stands_still() -> None:
    """It does not wait for as long as that one. Kept by Backlog.keep."""
    later, receivers = Later(), Receivers()
    backlog = Backlog(later, receivers)  # type: ignore[arg-type]
    backlog.keep("stopped", b"1")
    later.run(1.0)
    receivers.room["full"] = 2
    for number in range(4):
        backlog.keep("full", b"%d" % number)
    later.run(1.01)
    assert receivers.got == [("full", b"0"), ("full", b"1")]
    receivers.room["full"] = 2
    later.run(1.05)
    assert len(receivers.got) == 4


def test_nothing_is_sent_after_the_end() -> None:
    """Kept by Backlog.clear."""
    later, receivers = Later(), Receivers()
    backlog = Backlog(later, receivers)  # type: ignore[arg-type]
    receivers.room["full"] = 1
    backlog.keep("full", b"1")
    backlog.clear()
    later.run(1.0)
    assert not receivers.attempts
