"""What time it is on a server, without asking."""

from __future__ import annotations

from ...clock import Clock

OLD = 30.0
"""Seconds after which an answer says too little."""
DRIFT = 0.0005
"""By how much two clocks may differ in speed."""


class ServerTime:
    """The server's time, as its last answer tells: never ahead of it, unless its clock was set back since; and behind
    it by no more than that answer was under way.

    Args:
        clock: this process's.

    Attributes:
        trip: seconds that the last answer took.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._server_us = 0
        self._at = 0.0
        self.trip: float = 0.0

    def learn(self, server_us: int, asked: float) -> None:
        """The server had `server_us` between `asked`, on the clock, and now."""
        self._at = self._clock.now()
        self._server_us, self.trip = server_us, self._at - asked

    def read(self) -> int:
        """Return the time in microseconds; 0 if it is unknown."""
        age = self._clock.now() - self._at
        return self._server_us + int(age * (1 - DRIFT) * 1e6) if self._server_us and age <= OLD else 0
