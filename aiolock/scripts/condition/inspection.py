"""How anyone can look at a condition."""

from __future__ import annotations

from collections.abc import Sequence

from ..keys import Keys
from ..view import Command, NameView, WaiterView, pairs_of, short


class ConditionInspection:
    """Looks at the waiters of one lock's condition; implements `Inspection`.

    Args:
        keys: names the keys.
        name: the lock's.
    """

    def __init__(self, keys: Keys, name: str) -> None:
        self._name = name
        self.commands: Sequence[Command] = [("HGETALL", keys.of("condition", name).lock)]

    def decode(self, replies: Sequence[object], now_us: int) -> NameView | None:
        """See `Inspection.decode`."""
        places = sorted((int(text.split()[0]), int(text.split()[1]), owner) for owner, text in pairs_of(replies[0]))
        if not places:
            return None
        queue = tuple(
            WaiterView(
                at, short(owner), "", "notification", 1, max(0.0, (now_us - number) / 1e6), alive > now_us // 1000
            )
            for at, (number, alive, owner) in enumerate(places, 1)
        )
        return NameView(
            "condition", self._name, "waiting", waiting=len(queue), oldest_wait=queue[0].waited, queue=queue
        )
