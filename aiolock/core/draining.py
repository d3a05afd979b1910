"""The end of a manager, while tasks still wait or are inside."""

from __future__ import annotations

import asyncio

from ..log import Log
from .runtime import Runtime

logger: Log = Log("aiolock.manager")


LAST_TURNS = 10
"""Turns of the loop in which blocks that were cancelled together with the closing task may still leave."""


class Draining:
    """Waits until only the closing task waits or is inside a guarded block.

    Args:
        runtime: the manager's.
    """

    __slots__ = ("_closer", "_drained", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._closer = asyncio.current_task()
        self._drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """Wait until then; at most `request_timeout`."""
        runtime, drained = self._runtime, self._drained
        self.progress()
        try:
            await runtime.within(drained, runtime.clock.now() + runtime.limits.request_timeout, TimeoutError)
        except TimeoutError:
            logger.warning("closing while guarded blocks still run: their locks stay until they expire")

    async def last_turns(self) -> None:
        """Wait no more, except for what ends by itself now."""
        for _ in range(LAST_TURNS):
            if not self.occupied:
                break
            await asyncio.sleep(0)

    def progress(self) -> None:
        """A task left: it may have been the last one."""
        if not self._drained.done() and not self.occupied:
            self._drained.set_result(None)

    @property
    def occupied(self) -> bool:
        """Whether another task waits, or is inside a guarded block."""
        runtime = self._runtime
        if any(gate.occupied() for gate in runtime.gates.values()):
            return True
        return any(hold.guarded(self._closer) for hold in runtime.holds.values())
