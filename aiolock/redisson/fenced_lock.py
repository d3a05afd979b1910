"""Redisson's lock with a fencing token."""

from __future__ import annotations

from ..core.policy import Policy
from ..core.runtime import Runtime
from ..scripts.redisson import RLockCalls
from .lock import RLock


class RFencedLock(RLock):
    """`RedissonClient.getFencedLock(name)`: the lock of its name, with leases that have a fence. Comes from
    `Redisson.fenced_lock()`.

    The fence is Redisson's token, a counter that this name keeps permanently. A nested acquisition of yours keeps the
    fence of its hold, where one in Java gets a token of its own.

    Args:
        runtime: the manager's.
        name: what is locked, and its key.
        policy: how.
    """

    __slots__ = ()

    def __init__(self, runtime: Runtime, name: str, policy: Policy) -> None:
        super().__init__(runtime, name, policy)
        self._calls = RLockCalls(name, fenced=True)
