"""A lock's name with its queue of processes: its requests, and a view of its state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from aiolock.scripts.base import Call, Ending, Part
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcomes import ReleaseOutcome
from tests.support.scripting import KEPT_MS, KEYS, LONG_MS, Side

VERSION = "0.3"
"""Of the wire."""
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
    """A manager's last heartbeat."""

    until: int
    counted: bool
    process: str

    @classmethod
    def read(cls, text: str) -> Sign:
        until, _, process = text.partition(" ")
        return cls(int(until.rstrip("+")), until.endswith("+"), process)


HOLD = {"owner", "before", "depth", "expires", "process"}
"""The fields that only a hold has."""
TEXTS = {"owner", "abandoned", "process"}


class State(NamedTuple):
    """What the state says; none of the rest if no one holds it."""

    owner: str = ""
    fence: int = 0
    before: int = 0
    depth: int = 0
    abandoned: str = "0"
    expires: int = 0
    process: str = ""

    @classmethod
    def read(cls, kept: Mapping[str, str]) -> State:
        """All fields of a hold, or none of them: then it is free."""
        assert kept.get("version", VERSION) == VERSION
        assert len(kept.keys() & HOLD) in (0, len(HOLD)), kept
        found = {name: kept[name] for name in cls._fields if name in kept}
        return cls(**{name: text if name in TEXTS else int(text) for name, text in found.items()})  # type: ignore[arg-type]

    def encode(self) -> dict[str, str]:
        """As scripts write it."""
        facts = {name: str(value) for name, value in self._asdict().items() if self.owner or name not in HOLD}
        return {"version": VERSION, **facts}

    @property
    def live(self) -> bool:
        """True also for one whose time was not over a moment ago."""
        return self.expires > time.time() * 1000

    @property
    def free(self) -> bool:
        return self.expires == 0 or not self.live


def state(side: Side, name: Lock) -> State:
    return State.read(side.hash(name.state))


def waiters(side: Side, name: Lock) -> list[str]:
    """Who waits, first to last."""
    return list(side.scores(name.queue))


def signs(side: Side, name: Lock) -> dict[str, Sign]:
    """The managers that are known to live, or to have lived."""
    return {manager: Sign.read(text) for manager, text in side.hash(name.alive).items()}


def change(side: Side, name: Lock, **facts: object) -> None:
    """Write into the state what no request would write."""
    put(side, name, state(side, name)._replace(**facts))  # type: ignore[arg-type]


def put(side: Side, name: Lock, given: State) -> None:
    """Write the whole state."""
    side.delete(name.state)
    side.hset(name.state, given.encode())
    side.shorten(name.state, KEPT_MS)


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
