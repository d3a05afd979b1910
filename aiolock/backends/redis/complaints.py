"""Warnings that are logged once, however often a backend connects, and to however many nodes."""

from __future__ import annotations

from ...log import Log

logger: Log = Log("aiolock.redis")


class Complaints:
    """Remembers what was said."""

    def __init__(self) -> None:
        self._made: set[str] = set()
        self._where = ""

    def at(self, node: object) -> Complaints:
        """Return those of one node: they name it, and what was said of one is not said of another."""
        there = Complaints()
        there._made, there._where = self._made, f"node {node}: "
        return there

    def make(self, message: str, *details: object) -> None:
        """Log `message` as a WARNING, unless it was logged before, whatever its details."""
        if message not in self._made:
            self._made.add(message)
            logger.warning(self._where + message, *details)
