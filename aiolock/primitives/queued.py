"""What the primitives whose queue is on the server have in common."""

from __future__ import annotations

from ..scripts.outcomes import Standing
from ..scripts.queue import QueueCalls
from .base import Primitive


class Queueing(Primitive):
    """First come, first served across processes; the server grants, and notifies the next in line."""

    __slots__ = ()

    _calls: QueueCalls

    async def force_release(self) -> bool:
        """End all holds, whoever has them; the holders are notified at once and their guarded blocks cancelled.

        This is the one way in which blocks can overlap that must not: until the holders have learned of it. If the
        resource checks fences, it refuses them from now on.

        Returns:
            True if it was held.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cancellation: the holds of requests that were written are ended. Cost: one round trip for every 250 holders; no
        one enters between these.
        """
        held = False
        while True:
            outcome = await self._runtime.ask(self._calls.force_release(), "force-releasing", again=False)
            held = held or outcome.ended > 0
            if not outcome.left:
                return held

    async def _standing(self) -> Standing:
        """Return the state of the name."""
        first = self._gate().foremost
        return await self._runtime.ask(self._calls.info(first), "looking at")
