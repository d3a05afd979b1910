"""The latch's scripts, how to write a request to each, their answers, and how anyone can look at a latch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ..base import Call, Reply, Script, as_flag
from ..keys import Keys
from ..view import Look, NameView, number_of


class LatchState(NamedTuple):
    """`left` counts are missing of the latch's `total`; 0: it is open."""

    left: int
    total: int


def _state(reply: Reply) -> LatchState:
    match reply:
        case [int(left), int(total)]:
            return LatchState(left, total)
    raise ValueError(f"neither count nor total: {reply!r}")


VERSION = ("lock/version",)

COUNT_DOWN = Script(__name__, "count_down", _state, prelude=VERSION)
QUERY = Script(__name__, "query", _state, prelude=VERSION)
DELETE = Script(__name__, "delete", as_flag, prelude=VERSION)
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


def look(keys: Keys, name: str) -> Look:
    """Return how anyone can look at a latch."""
    key = keys.of(LatchCalls.kind, name).lock
    return Look([("HMGET", key, "left", "total"), ("PTTL", key)], partial(_view, name))


def _view(name: str, replies: Sequence[object], now_us: int) -> NameView | None:
    match replies[0]:
        case [bytes() as left, bytes() as total]:
            state = "open" if int(left) == 0 else "closed"
            ttl = max(0, number_of(replies[1])) / 1000
            return NameView(LatchCalls.kind, name, state, ttl=ttl, used=int(left), capacity=int(total))
    return None
