"""What the primitives share whose queue is kept by the server."""

from __future__ import annotations

from ..scripts.outcomes import Standing
from ..scripts.queue import QueueCalls
from .base import Primitive


class Queueing(Primitive):
    """First come, first served across processes; the server grants, and tells whoever's turn it is."""

    __slots__ = ()

    _calls: QueueCalls

    async def force_release(self) -> bool:
        """End whatever is held, whoever holds it; the holders are told at once and their guarded blocks cancelled.

        The one way blocks can overlap that must not: until the holder has heard of it. Its fence is refused by then, if
        the resource looks at fences.

        Returns:
            True if anything was held.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cancellation: those that were asked for are ended. Cost: one round trip for each 250 holders; nobody is let in
        in between.
        """
        held = False
        while True:
            outcome = await self._runtime.ask(self._calls.force_release(), "force-releasing")
            held = held or outcome.ended > 0
            if not outcome.left:
                return held

    async def _standing(self, uses: bool = False) -> Standing:
        """What there is. A request that `uses` the name fixes its capacity, and keeps it as a clean release does."""
        first = self._gate().queue.foremost
        return await self._runtime.ask(self._calls.info(first, self._policy.ttl_ms if uses else None), "looking at")
