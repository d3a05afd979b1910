"""A release that was written, for callers that want to know how it went."""

from __future__ import annotations

from collections.abc import Generator

from .ondemand import OnDemand
from .release import ReleaseResult


class Releasing(OnDemand[None]):
    """What `release()` returns: await it to see how that went, make a task of it, or drop it.

    Args:
        result: what was written when you called `release()`.
    """

    __slots__ = ("_result",)

    def __init__(self, result: ReleaseResult) -> None:
        self._running = None
        self._result = result

    def __await__(self) -> Generator[object, None, None]:
        yield from self._result.observed()
        self._result.raise_failure()

    async def _start(self) -> None:
        await self
