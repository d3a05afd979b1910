"""What happened, in order."""

from __future__ import annotations

import hashlib


class History:
    """Events, with their time, kind, place and detail.

    Attributes:
        events: (seconds, kind, place, detail).
        pairs: which kind of event was followed by which.
    """

    def __init__(self) -> None:
        self.events: list[tuple[float, str, str, str]] = []
        self.pairs: set[tuple[str, str]] = set()
        self._last = "start"

    def add(self, now: float, what: str, who: str, detail: str) -> None:
        """Append an event."""
        self.events.append((now, what, who, detail))
        self.pairs.add((self._last, what))
        self._last = what

    @property
    def digest(self) -> str:
        """Equal for equal histories."""
        return hashlib.sha256(repr(self.events).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        start = self.events[0][0] if self.events else 0.0
        return "\n".join(
            f"{now - start:10.6f}  {what:<12} {who:<6} {detail}".rstrip() for now, what, who, detail in self.events
        )
