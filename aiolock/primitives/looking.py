"""Who holds a name, and who waits for it: a base of the primitives whose server knows that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.runtime import Runtime

if TYPE_CHECKING:
    from ..scripts.view import HolderInfo, NameView, WaiterInfo


class Looking:
    """A base of primitives. Each look is of one moment, and changes nothing."""

    __slots__ = ()

    _calls: Any
    _runtime: Runtime

    async def holders(self) -> list[HolderInfo]:
        """Return everyone who holds it, in the order in which they entered; of a read-write lock, on either side.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only. Its answer is as long as there are holders and waiters.
        """
        abilities, calls = self._runtime.backend.abilities, self._calls
        if abilities.queues:
            view = await look(self._runtime, calls)
            return [] if view is None else list(view.holders)
        from ..scripts.view import HolderInfo, short

        held = (await self._runtime.ask(calls.info(), "looking at")).held
        if held is None:
            return []
        process, metadata = held.told()
        left = max(0, held.pttl) / 1000
        return [HolderInfo(short(held.owner), process, metadata, held.fence, held.depth, 1, left)]

    async def waiters(self) -> list[WaiterInfo]:
        """Return the queue, first to last. Of a `lock()` a place is that of a process, for all its tasks.

        Raises:
            BackendError: Redis is unreachable or refuses.
            ConfigurationError: the locks are held on a quorum, where those who wait race.

        Cost: as for `holders()`.
        """
        self._runtime.backend.abilities.need_queues(self._calls.name, "looks at who waits")
        view = await look(self._runtime, self._calls)
        return [] if view is None else list(view.queue)


async def look(runtime: Runtime, calls: Any) -> NameView | None:
    """Return what the server has of a name; None if it knows nothing."""
    if runtime.backend.abilities.requests is not None:
        seen: NameView | None = await runtime.ask(calls.look(), "looking at")
        return seen
    from ..scripts.look import look_at

    return await runtime.ask(look_at(runtime.keys, calls.kind, calls.name), "looking at")
