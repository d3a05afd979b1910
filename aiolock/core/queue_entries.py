"""The entries of a manager in the servers' queues: messages find them here, and they are refreshed together."""

from __future__ import annotations

import math
from typing import Protocol

from ..scripts.base import Call
from .calls import Calls

REMEMBERED = 1000
"""In this many queues a manager that closes does not leave a trace; others sweep up the rest."""


class WaitingEntry(Protocol):
    """An entry that asks for a name or waits for it, as messages see it."""

    @property
    def queue_number(self) -> int:
        """Its number in the queue, if the client keeps it."""

    def told(self, fence: int) -> None:
        """A message says that it was granted, with this fence."""

    def revoke(self) -> None:
        """A message says that what it was granted was ended by force."""

    def want(self) -> None:
        """Another asks its holder to finish: the server has granted to it, and the answer is on its way."""

    def verify(self) -> None:
        """Ask the server at once: a message may have been missed."""


class QueueEntries(dict[str, WaitingEntry]):
    """All entries that ask for a name or wait for one, by owner."""

    __slots__ = ("_refresh_at", "_stood")

    def __init__(self) -> None:
        self._refresh_at = -math.inf
        self._stood: dict[tuple[str, str], Calls] = {}

    def next_refresh(self, earliest: float, latest: float) -> float:
        """A clock time between these two at which they are refreshed together."""
        if not earliest <= self._refresh_at <= latest:
            self._refresh_at = latest
        return self._refresh_at

    def stands(self, calls: Calls, liveness_ms: int) -> None:
        """A server has put one into the queue of this name, or may have: it remembers that the manager lives.

        Args:
            calls: requests about the name.
            liveness_ms: for how long its request said so; 0: it asked for no place.
        """
        if not liveness_ms:
            return
        name = calls.kind, calls.name
        self._stood.pop(name, None)
        self._stood[name] = calls
        if len(self._stood) > REMEMBERED:
            del self._stood[next(iter(self._stood))]

    def departures(self, manager: str) -> list[Call[bool]]:
        """Return what makes servers forget the manager, which closes."""
        stood, self._stood = self._stood, {}
        return [call for calls in stood.values() if (call := calls.departure(manager)) is not None]

    def verify(self) -> None:
        """Ask about each, in the order of their turns: something may have been missed."""
        for entry in sorted(self.values(), key=lambda entry: entry.queue_number):
            entry.verify()
