"""The latch's scripts, and how to write a request to each."""

from __future__ import annotations

from ..base import Call, Script
from ..keys import Keys
from . import decode
from .decode import LatchState as LatchState

COUNT_DOWN = Script(__name__, "count_down", decode.latch_state)
QUERY = Script(__name__, "query", decode.latch_state)
DELETE = Script(__name__, "delete", decode.deleted)
SCRIPTS = (COUNT_DOWN, QUERY, DELETE)


class LatchCalls:
    """Requests about one latch.

    Args:
        keys: names the keys.
        name: the latch's name.
        total: how many counts open it, if this request is the first about it.
        ttl_ms: how long the server keeps it from this request on.
    """

    __slots__ = ("_key", "free_channel", "name", "total", "ttl_ms")

    kind = "latch"

    def __init__(self, keys: Keys, name: str, total: int, ttl_ms: int) -> None:
        names = keys.of(self.kind, name)
        self.name: str = name
        self.total: int = total
        self.ttl_ms: int = ttl_ms
        self.free_channel: str = names.free
        self._key = names.lock

    def count_down(self, counter: str) -> Call[LatchState]:
        """Count once for `counter`, however often this is executed; so it is written again if it went unanswered."""
        args = (counter, self.total, self.ttl_ms, self.free_channel)
        return Call(self.name, COUNT_DOWN, (self._key,), args, unanswered=lambda: True)

    def query(self) -> Call[LatchState]:
        return Call(self.name, QUERY, (self._key,), (self.total, self.ttl_ms))

    def delete(self) -> Call[bool]:
        """Delete it. Never written again if it went unanswered: by then the name may mean a newer latch."""
        return Call(self.name, DELETE, (self._key,), ())
