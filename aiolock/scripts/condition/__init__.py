"""The condition's scripts, and how to write a request to each."""

from __future__ import annotations

from ..base import Call, Script
from ..keys import Keys
from . import decode
from .decode import Waiting as Waiting

LINE = ("lock/clock", "line")

WAIT = Script(__name__, "wait", decode.waiting, prelude=LINE)
NOTIFY = Script(__name__, "notify", decode.count, prelude=LINE)
LEAVE = Script(__name__, "leave", decode.count, prelude=LINE)
SCRIPTS = (WAIT, NOTIFY, LEAVE)


class ConditionCalls:
    """Requests about the condition of one lock.

    Args:
        keys: names the keys.
        name: the lock's name.
        liveness_ms: how long a waiter counts as alive without a sign of life.
    """

    __slots__ = ("_channel", "_key", "_liveness_ms", "name")

    kind = "condition"

    def __init__(self, keys: Keys, name: str, liveness_ms: int) -> None:
        self.name: str = name
        self._key = keys.of(self.kind, name).lock
        self._channel = keys.managers
        self._liveness_ms = liveness_ms

    def wait(self, owner: str, joins: bool, looks: bool = True) -> Call[Waiting]:
        """Join the waiters, or give a sign of life; a copy of the request finds its own entry.

        Args:
            owner: the waiter.
            joins: the server need not know it.
            looks: passes on what waiters that died were notified of; then it takes as long as there are many.
        """
        args = (owner, self._liveness_ms, int(joins), int(looks), self._channel)
        return Call(self.name, WAIT, (self._key,), args)

    def notify(self, count: int) -> Call[int]:
        """Wake the first waiters. Never written again if it went unanswered: it would wake others."""
        return Call(self.name, NOTIFY, (self._key,), (count, self._channel))

    def leave(self, owner: str, passes: bool) -> Call[int]:
        """End a waiter, which may pass its notification on."""
        return Call(self.name, LEAVE, (self._key,), (owner, int(passes), self._channel))
