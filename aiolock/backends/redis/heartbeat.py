"""Notices a server that is connected and does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

TICKS = 10
"""How often it checks in one timeout."""
STALL = 4
"""After this many ticks, none of them in time, the server gets a fresh period: this loop, or the process, was
stopped.
"""


class Heartbeat:
    """Pings when idle, and gives up when an answer is overdue.

    Only replies count, not pushes: a path that is dead in one direction may still deliver messages. Only time in which
    this loop ran counts: a late tick counts for two at most.

    Args:
        timeout: seconds that an answer may take.
        waiting: whether answers are outstanding.
        ask: writes a request that must be answered.
        give_up: the server is dead to us; called once.
        idle: seconds of silence after which the server is asked, if no answers are outstanding.

    Attributes:
        heard: set it when an answer comes, or when the first question after an idle time is sent; the time without a
            answer counts from the next tick.
    """

    def __init__(
        self,
        timeout: float,
        waiting: Callable[[], bool],
        ask: Callable[[], None],
        give_up: Callable[[], None],
        idle: Callable[[], float],
    ) -> None:
        self._timeout = timeout
        self._tick = timeout / TICKS
        self._waiting = waiting
        self._ask = ask
        self._give_up = give_up
        self._idle = idle
        self._quiet = 0.0
        self._overdue = False
        self.heard: bool = False
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(self._tick, self._on_tick)

    def stop(self) -> None:
        """Stop ticking."""
        self._timer.cancel()

    def _on_tick(self) -> None:
        now = self._loop.time()
        elapsed, self._last = now - self._last, now
        self._timer = self._loop.call_later(self._tick, self._on_tick)
        if self.heard or elapsed > STALL * self._tick:
            self.heard = self._overdue = False
            self._quiet = 0.0
            return
        self._quiet += min(elapsed, 2 * self._tick)
        if not self._waiting():
            if self._quiet >= self._idle():
                self._ask()
        elif self._quiet >= self._timeout:
            # Answers that arrived while the loop was busy are read before the next tick.
            if self._overdue:
                self.stop()
                self._give_up()
            self._overdue = True
