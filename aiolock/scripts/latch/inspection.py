"""How anyone can look at a latch."""

from __future__ import annotations

from collections.abc import Sequence

from ..keys import Keys
from ..view import Command, NameView, number_of


class LatchInspection:
    """Looks at one latch; implements `Inspection`.

    Args:
        keys: names the keys.
        name: the latch's.
    """

    def __init__(self, keys: Keys, name: str) -> None:
        self._name = name
        key = keys.of("latch", name).lock
        self.commands: Sequence[Command] = [("HMGET", key, "left", "total"), ("PTTL", key)]

    def decode(self, replies: Sequence[object], now_us: int) -> NameView | None:
        """See `Inspection.decode`."""
        match replies[0]:
            case [bytes() as left, bytes() as total]:
                state = "open" if int(left) == 0 else "closed"
                ttl = max(0, number_of(replies[1])) / 1000
                return NameView("latch", self._name, state, ttl=ttl, used=int(left), capacity=int(total))
        return None
