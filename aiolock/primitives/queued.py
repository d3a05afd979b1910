"""What the primitives whose queue is on the server have in common."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from ..core.policy import check_duration
from ..scripts.outcomes import Standing
from ..scripts.queue import QueueCalls
from .base import Primitive
from .revocation import AT_ONCE, outlasting, parts


class Queueing(Primitive):
    """First come, first served across processes; the server grants, and notifies the next in line."""

    __slots__ = ()

    _calls: QueueCalls

    async def force_release(self) -> bool:
        """End all holds, whoever has them; the holders are notified at once and their guarded blocks cancelled.

        Blocks that must not overlap do, until the holders have learned of it and their blocks have ended. If the
        resource checks fences, it refuses the holders as soon as it has seen a later one's.

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

    async def request_release(self, grace: float | timedelta = 0.0) -> bool:
        """Ask all who hold it now to finish, as `Lock.request_release()` does: readers and writers, or holders of
        permits. Those that do not are left alone: see `force_release()`.

        Args:
            grace: seconds to wait until all these holds have ended; 0 only asks.

        Returns:
            True if they have, or if nobody held it.

        Raises:
            BackendError: Redis is unreachable or refuses.
            ConfigurationError: a grace that cannot be; a store without scripts; the manager is not entered, or closes.

        Cancellation: holders may have been asked. Cost: one round trip for every 250 holders. While it waits, the same
        after 10 ms, then after twice as long each time, up to 1 s.
        """
        seconds = check_duration(self.name, "grace", grace)
        self._runtime.backend.abilities.need_scripts(self.name, "requests to all holders")
        # All are named before one is asked: a place in their order changes with each that ends or renews.
        held = await self._ask(())
        holders = held[:AT_ONCE]
        for part in parts(held[AT_ONCE:]):
            holders += await self._ask(part)
        clock = self._runtime.clock
        return not await outlasting(clock, clock.now() + seconds, holders, self._ask)

    async def _ask(self, owners: Sequence[str]) -> list[str]:
        return await self._runtime.ask(self._calls.request_release(owners), "asking for the release of")

    async def _standing(self) -> Standing:
        """Return the state of the name."""
        first = self._gate().foremost
        return await self._runtime.ask(self._calls.info(first), "looking at")
