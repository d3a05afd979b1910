"""Warnings that one backend logs once, however often it connects."""

from __future__ import annotations

from ...log import Log

logger: Log = Log("aiolock.redis")


class Complaints:
    """Remembers what was said."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: set[str] = set()

    def make(self, message: str, *details: object) -> None:
        """Log `message` as a WARNING, unless it was logged before, whatever its details."""
        if message not in self._made:
            self._made.add(message)
            logger.warning(message, *details)
