"""The condition's scripts, how to write a request to each, their answers, and how anyone can look at its waiters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple, cast

from ..base import Call, Reply, Script, as_list, as_number, as_text
from ..keys import Keys
from ..view import Look, NameView, WaiterInfo, pairs_of, short

WaiterState = Literal["waiting", "notified", "gone"]
"""What the server knows of a waiter."""


class Waiting(NamedTuple):
    """How a waiter is, and how many there are."""

    state: WaiterState
    waiters: int


def _waiting(reply: Reply) -> Waiting:
    state, waiters = as_list(reply)
    return Waiting(cast(WaiterState, as_text(state)), as_number(waiters))


LINE = ("lock/version", "lock/clock", "line", "wake")

WAIT = Script(__name__, "wait", _waiting, prelude=LINE)
NOTIFY = Script(__name__, "notify", as_number, prelude=LINE)
LEAVE = Script(__name__, "leave", as_number, prelude=LINE)
SCRIPTS = (WAIT, NOTIFY, LEAVE)


class ConditionCalls:
    """Requests about the condition of one lock.

    Args:
        keys: names the keys.
        name: the lock's name.
        liveness_ms: how long a waiter counts as alive without a heartbeat.
    """

    __slots__ = ("_channel", "_key", "_liveness_ms", "name")

    kind = "condition"

    def __init__(self, keys: Keys, name: str, liveness_ms: int) -> None:
        self.name: str = name
        self._key = keys.of(self.kind, name).lock
        self._channel = keys.managers
        self._liveness_ms = liveness_ms

    def wait(self, owner: str, joins: bool, looks: bool = True, process: str = "") -> Call[Waiting]:
        """Join the waiters, or send a heartbeat; a copy of the request finds its own entry.

        Args:
            owner: the waiter.
            joins: the server need not know it.
            looks: passes on what waiters that died were notified of; then it takes as long as there are many.
            process: its host and pid.
        """
        args = (owner, self._liveness_ms, int(joins), int(looks), self._channel, process)
        return Call(self.name, WAIT, (self._key,), args)

    def notify(self, count: int) -> Call[int]:
        """Wake the first waiters. Never written again if it went unanswered: it would wake others."""
        return Call(self.name, NOTIFY, (self._key,), (count, self._channel))

    def leave(self, owner: str, passes: bool) -> Call[int]:
        """End a waiter, which may pass its notification on."""
        return Call(self.name, LEAVE, (self._key,), (owner, int(passes), self._channel))


_WAITER = re.compile(r"number=(\d+) until=(\d+) notified=\d process=(.*)", re.DOTALL)


def look(keys: Keys, name: str) -> Look:
    """Return how anyone can look at the waiters of one lock's condition."""
    return Look([("HGETALL", keys.of("condition", name).lock)], partial(_view, name))


def _view(name: str, replies: Sequence[object], now_us: int) -> NameView | None:
    pairs = pairs_of(replies[0])
    found = [(record.groups(), owner) for owner, text in pairs if (record := _WAITER.fullmatch(text))]
    queue = tuple(
        WaiterInfo(
            at, short(owner), process, "notification", 1,
            max(0.0, (now_us - int(number)) / 1e6), int(until) > now_us // 1000,
        )
        for at, ((number, until, process), owner) in enumerate(sorted(found), 1)
    )  # fmt: skip
    if not queue:
        return None
    return NameView("condition", name, "waiting", waiting=len(queue), oldest_wait=queue[0].waited, queue=queue)
