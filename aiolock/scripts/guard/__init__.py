"""Writes of a user's that run only while an owner holds: one script around the user's own Lua."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ..base import Arg, Call, Reply, Script, as_list, read
from ..keys import Keys
from ..lock import STATE, LockCalls


class Verdict(enum.IntEnum):
    """What became of a write.

    Attributes:
        DONE: it ran, now or when its first copy came.
        NOT_HELD: it did not run: the owner does not hold.
        OVERTAKEN: it did not run: a later write of the same hold did.
    """

    DONE = 0
    NOT_HELD = 1
    OVERTAKEN = 2


def verdict(reply: Reply) -> Verdict:
    return Verdict(as_list(reply)[0])  # type: ignore[arg-type]


UNDER_LOCK = Script(__name__, "write", verdict, prelude=(*(f"lock/{file}" for file in STATE), "names"))
UNDER_RW_LOCK = Script(
    __name__, "write", verdict, prelude=("lock/version", "queue/state", "queue/clock", "queue/record", "holders")
)
SCRIPTS = (UNDER_LOCK, UNDER_RW_LOCK)
COMMANDS: str = read(__name__, "commands")
"""The body for plain commands."""


@lru_cache(maxsize=128)
def around(script: Script[Verdict], body: str) -> Script[Verdict]:
    """Return the script that runs `body`, a user's Lua. An error in that has the user's line numbers."""
    return script.after(f"local function body(KEYS, ARGV) {body}\nend\n")


class Permit(NamedTuple):
    """Who writes, and how the server knows that it holds.

    Attributes:
        script: goes around what is written.
        keys: KEYS before those of the writes; the first is where the last write is remembered.
        owner: the owner.
        fence: its fence.
        weight: what it must hold at least.
    """

    script: Script[Verdict]
    keys: tuple[str, ...]
    owner: str
    fence: int
    weight: int

    def args(self, number: int) -> tuple[Arg, ...]:
        """ARGV before those of the write with this number."""
        return self.owner, self.fence, number, len(self.keys) - 1, self.weight

    def call(self, name: str, number: int) -> Call[Verdict]:
        """Return a request that decides about a write, and leaves it to you to do it."""
        return Call(name, around(self.script, ""), self.keys, self.args(number))


def permit(keys: Keys, kind: str, names: Sequence[str], owner: str, fence: int, weight: int) -> Permit:
    """Return the permit of an owner.

    Args:
        keys: names the keys.
        kind: "rw"; otherwise it holds plain locks.
        names: what it holds.
        owner: the owner.
        fence: its fence.
        weight: how much of a read-write lock it must hold.
    """
    if kind == "rw":
        found = keys.of(kind, names[0])
        return Permit(UNDER_RW_LOCK, (found.written, *found.queue), owner, fence, weight)
    states = [keys.of(LockCalls.kind, name) for name in names]
    return Permit(UNDER_LOCK, (states[0].written, *(state.lock for state in states)), owner, fence, 1)
