"""How long to wait before the next attempt to connect."""

from __future__ import annotations

import asyncio
import contextlib
import random

from ...clock import backoff

FIRST = 0.01
CAP = 0.8
"""Seconds. A holder must know within a second of the new master that its lock is lost."""
FRESH = 0.1
"""Seconds for which the end of an attempt tells what the next one would find, or its beginning that it ends soon."""
LASTED = 0.25
"""Seconds after which a connection no longer counts as a failed attempt."""


class Backoff:
    """Capped exponential backoff with full jitter; the first attempt is immediate.

    Full jitter keeps the clients of a server that comes back from arriving all at once.
    Source: AWS Architecture Blog, "Exponential Backoff And Jitter".
    """

    def __init__(self) -> None:
        self._attempts = 0
        self._needed = asyncio.Event()
        self._pausing = False
        self._since = 0.0  # the loop's time at which the last pause or attempt began

    def next(self) -> float:
        """Seconds to wait before this attempt."""
        attempts, self._attempts = self._attempts, self._attempts + 1
        if attempts == 0:
            return 0.0
        return random.uniform(0.0, backoff(attempts - 1, FIRST, CAP))

    async def pause(self) -> None:
        """Wait for the next attempt: until its time has come, or someone needs it."""
        self._since, self._pausing = asyncio.get_running_loop().time(), True
        self._needed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.next()):
                await self._needed.wait()
        self._since, self._pausing = asyncio.get_running_loop().time(), False

    def need(self) -> bool:
        """A request needs a connection, and the last attempt has failed.

        Returns:
            False if that was just now, or if another has been running for a while: it need not wait for the next one.
        """
        fresh = asyncio.get_running_loop().time() - self._since < FRESH
        if self._pausing and not fresh:
            self.hurry()
        return fresh != self._pausing

    def hurry(self) -> None:
        """End the pause."""
        self._needed.set()

    def reset(self) -> None:
        """A connection has lasted: the next attempt counts as a first one again."""
        self._attempts = 0
