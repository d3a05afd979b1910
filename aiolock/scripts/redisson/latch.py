"""Requests about Redisson's latch."""

from __future__ import annotations

from ..base import Call, Reply, Script, as_number
from ..latch import LatchState
from . import SET_COUNT
from .keys import RedissonKeys


def _state(reply: Reply) -> LatchState:
    return LatchState(as_number(reply), 0)


QUERY = Script(__package__, "latch_query", _state)
COUNT_DOWN = Script(__package__, "latch_count_down", _state)
SCRIPTS = (QUERY, COUNT_DOWN)


class RLatchCalls:
    """Requests about an RCountDownLatch. Nobody knows how many counts it had in all.

    Args:
        name: the latch's, and its key.
    """

    __slots__ = ("free_channel", "name")

    kind = "redisson.latch"
    ttl_ms = 10**12  # it does not expire

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.free_channel: str = RedissonKeys(name).latch_channel

    def set_count(self, count: int) -> Call[bool]:
        """Say how many counts open it, if nobody has."""
        return Call(self.name, SET_COUNT, (self.name,), (count, self.free_channel, 1))

    def count_down(self) -> Call[LatchState]:
        """Count once more each time that it runs."""
        return Call(self.name, COUNT_DOWN, (self.name,), (self.free_channel,))

    def query(self) -> Call[LatchState]:
        """Ask how many counts are missing."""
        return Call(self.name, QUERY, (self.name,), ())
