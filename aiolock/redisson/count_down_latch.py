"""Redisson's latch."""

from __future__ import annotations

from ..core.runtime import Runtime
from ..errors import ConfigurationError
from ..primitives.count_down import CountDown
from ..primitives.semaphore import MAX_PERMITS
from ..scripts.keys import check_name
from ..scripts.redisson.latch import RLatchCalls


class RCountDownLatch(CountDown):
    """`RedissonClient.getCountDownLatch(name)`: it opens with the last count. Comes from `Redisson.count_down_latch()`.

    To Redisson an open latch is no latch at all. So one that nobody has set yet is open, too: whoever waits must
    know that it was set. It can be set again when it is open, and it never expires.

    Args:
        runtime: the manager's.
        name: what is waited for, and its key.
    """

    __slots__ = ()

    _calls: RLatchCalls

    def __init__(self, runtime: Runtime, name: str) -> None:
        super().__init__(runtime, RLatchCalls(check_name(name)))

    async def try_set_count(self, count: int) -> bool:
        """Say how many counts open it: `trySetCount()`. Until somebody does it is open, and so it is afterwards.

        Returns:
            True if it was open.

        Raises:
            ConfigurationError: not a whole number from 1.
            BackendError: Redis is unreachable or refuses. Without an answer it may have been set.

        Cancellation: it may still happen. Cost: one round trip.
        """
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_PERMITS:
            raise ConfigurationError(
                self.name, f"count of latch {self.name!r} must be a whole number from 1 to {MAX_PERMITS}, not {count!r}"
            )
        return await self._runtime.ask(self._calls.set_count(count), "setting", again=False)

    async def count_down(self) -> int:
        """Count down by one: `countDown()`. An open one stays as it is.

        It is sent once: Redisson has no place for what would tell a repeated request from another count.

        Returns:
            How many counts are missing now; 0: it is open.

        Raises:
            BackendError: Redis is unreachable or refuses. Without an answer it may have been counted: look at
                `count()`.

        Cancellation: it counts if it was already written. Cost: one round trip.
        """
        call = self._calls.count_down()
        call.settle = self._counted
        return self._agree(await self._runtime.ask(call, "counting down", again=False))

    def __repr__(self) -> str:
        return f"<RCountDownLatch {self.name!r}>"
