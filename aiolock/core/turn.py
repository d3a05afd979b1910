"""How long a process may hand a name on among its own tasks while other processes wait."""

from __future__ import annotations

import math

TURN = 0.02
"""Seconds after which a turn ends: so a process on a slow line does not tax everybody."""


class Turn:
    """From a grant out of the server's queue to the release that passes the name on.

    A turn serves those who waited when it began: so every task gets its share, whatever process it is in. Source:
    "Lock Cohorting" (Dice, Marathe, Shavit, 2012), brought to processes.

    Args:
        limit: hand-offs in one turn at most.

    Attributes:
        left: hand-offs that are left in this turn.
    """

    __slots__ = ("_began", "_limit", "left")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.left: int = 0
        self._began = -math.inf

    def begin(self, now: float, waiting: int) -> None:
        """The name came to this process, where so many wait for it."""
        self._began = now
        self.left = waiting if waiting < self._limit else self._limit

    def hand_on(self, now: float) -> bool:
        """One more hand-off: True if it is the turn of others, should any wait."""
        self.left -= 1
        return self.left < 0 or now - self._began >= TURN
