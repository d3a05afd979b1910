"""A lock's name with its queue of processes: its requests, and a view of its state."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import NamedTuple

from aiolock.scripts.base import Call, Ending, Part
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcomes import ReleaseOutcome
from tests.support.scripting import KEYS, LONG_MS, Side

TTL = 30_000
LIVENESS = 3_000
HIGH = 2**51
"""A floor above every server's time: the next grant has the fence above it."""
FENCE = HIGH + 1


class Lock(LockCalls):
    """The calls about one name, and the place of its keys."""

    def __init__(self, name: str = "order:42", liveness_ms: int = LIVENESS) -> None:
        super().__init__(KEYS, name, liveness_ms)
        self.state, self.queue, self.alive = self.keys = self._keys
        self.dead = KEYS.of(self.kind, name).dead
        self.manager = KEYS.manager

    def release(  # type: ignore[override]
        self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool, channel: str = ""
    ) -> Call[ReleaseOutcome]:
        """As the core's, and announced on `channel`, as where waiters race."""
        announced, self.free_channel = self.free_channel, channel
        try:
            return super().release(owner, ttl_ms, left, ending, tainted)
        finally:
            self.free_channel = announced

    def alive_of(self, owner: str, liveness_ms: int, counted: bool = True, metadata: str = "") -> Part:
        """A refresh, with what its script uses."""
        return self.refresh(Bid(owner, 0, 0, metadata, liveness_ms, counted))


class Sign(NamedTuple):
    """A manager's last sign of life."""

    until: int
    counted: bool
    process: str

    @classmethod
    def read(cls, text: str) -> Sign:
        until, _, process = text.partition(" ")
        return cls(int(until.rstrip("+")), until.endswith("+"), process)


@dataclass(frozen=True)
class State:
    """What the state says."""

    holder: str
    fence: int
    before: int
    depth: int
    dirty: str
    expires: int
    metadata: str

    @classmethod
    def read(cls, text: str | None) -> State:
        holder, fence, before, depth, dirty, expires, metadata = (text or "- 0 0 0 0 0 ").split(" ", 6)
        return cls(holder, int(fence), int(before), int(depth), dirty, int(expires), metadata)

    def encode(self) -> str:
        facts = (self.holder, self.fence, self.before, self.depth, self.dirty, self.expires, self.metadata)
        return " ".join(map(str, facts))

    @property
    def live(self) -> bool:
        """True also for one whose time was not over a moment ago."""
        return self.expires > time.time() * 1000

    @property
    def free(self) -> bool:
        return self.expires == 0 or not self.live


def state(side: Side, name: Lock) -> State:
    return State.read(side.get(name.state))


def waiters(side: Side, name: Lock) -> list[str]:
    """Who waits, first to last."""
    return list(side.scores(name.queue))


def signs(side: Side, name: Lock) -> dict[str, Sign]:
    """The managers that are known to live, or to have lived."""
    return {manager: Sign.read(text) for manager, text in side.hash(name.alive).items()}


def change(side: Side, name: Lock, **facts: object) -> None:
    """Write into the state what no request would write."""
    side.set(name.state, replace(state(side, name), **facts).encode())  # type: ignore[arg-type]


def expire(side: Side, name: Lock) -> None:
    """Let the holder's time run out."""
    change(side, name, expires=1)


def forget(side: Side, name: Lock, *managers: str) -> None:
    """Let the managers be silent for too long."""
    known = signs(side, name)
    for manager in managers:
        side.hset(name.alive, {manager: "1" + "+" * known[manager].counted})


def enter(side: Side, name: Lock, *owners: str, counted: bool = True, liveness_ms: int = LIVENESS) -> None:
    """Have them wait for the name, in this order."""
    for owner in owners:
        side.run(name.acquire(Bid(owner, TTL, 0, f"of {owner}", liveness_ms, counted)))


def hears(side: Side, name: Lock, *managers: str) -> None:
    side.listen(*(name.manager(manager) for manager in managers))


def lasting(side: Side, name: Lock) -> None:
    """Assert that every key expires.

    Raises:
        AssertionError: one does not.
    """
    for key in name.keys:
        assert not side.exists(key) or 0 < side.pttl(key) <= LONG_MS, key
