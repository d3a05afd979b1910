"""Messages that their receivers could not take at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ...clock import backoff

RETRY = 0.002
LONGEST = 0.25
"""Seconds until full receivers are tried again: first, and at most."""
AGE = 5.0
"""Seconds after which a message is given up: its receiver is frozen, and asks by itself once it goes on."""
KEPT = 1000
"""Messages for one receiver at most: a lost one costs it no more than a wait for its refresh."""


class Backlog:
    """Tries again, while a receiver is full: seldom, if it stays so. Used on the loop.

    Args:
        loop: the manager's.
        sent: sends to a receiver; False if it is full.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, sent: Callable[[str, bytes], bool]) -> None:
        self._loop = loop
        self._sent = sent
        self._kept: dict[str, deque[tuple[float, bytes]]] = {}
        self._failures = 0  # in a row
        self._timer: asyncio.TimerHandle | None = None

    def keep(self, name: str, data: bytes) -> None:
        """Send to a receiver later."""
        if name not in self._kept:
            self._kept[name] = deque(maxlen=KEPT)
            self._failures = 0
            self._later()
        self._kept[name].append((self._loop.time() + AGE, data))

    def clear(self) -> None:
        """Send nothing more."""
        self._kept.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(backoff(self._failures, RETRY, LONGEST), self._again)

    def _again(self) -> None:
        self._failures += 1
        now = self._loop.time()
        for name, messages in list(self._kept.items()):
            while messages and (messages[0][0] < now or self._sent(name, messages[0][1])):
                messages.popleft()
                self._failures = 0
            if not messages:
                del self._kept[name]
        if self._kept:
            self._later()
