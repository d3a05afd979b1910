"""How long a process may hand a name on among its own tasks while other processes wait."""

from __future__ import annotations

TURN = 0.02
"""Seconds after which a turn ends: so a process on a slow connection does not delay all others."""


class Turn:
    """From a grant out of the server's queue to the release that passes the name on.

    A turn serves the tasks that waited when it began, so every task gets its share, whatever process it is in. Source:
    "Lock Cohorting" (Dice, Marathe, Shavit, 2012), applied to processes.

    Args:
        began: clock time at which the name came to this process.
        waiting: how many wait for it here.
        limit: the maximum of hand-offs in one turn.
    """

    __slots__ = ("_left", "_until")

    def __init__(self, began: float, waiting: int, limit: int) -> None:
        self._until = began + TURN
        self._left = min(waiting, limit)

    def hand_on(self, now: float) -> bool:
        """Count one more hand-off; return True if it is the turn of others, should any wait."""
        self._left -= 1
        return self._left < 0 or now >= self._until
