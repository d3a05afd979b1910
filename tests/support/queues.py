"""Names of the queue family in their three shapes, and a look at what the scripts keep of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aiolock.scripts.keys import Keys
from aiolock.scripts.queue import QueueCalls

from .scripting import Side

KEYS = Keys("aiolock")
FULL = 2**31
"""The capacity of a read-write lock, and the weight of a writer."""


class Shape(NamedTuple):
    """What makes a kind: its capacity, and (weight, mints) of the acquisitions it knows."""

    kind: str
    capacity: int
    wants: tuple[tuple[int, bool], ...]


FAIR = Shape("fair", 1, ((1, True),))
SEMAPHORE = Shape("semaphore", 3, ((1, True), (2, True), (3, True)))
RW = Shape("rw", FULL, ((1, False), (FULL, True)))
SHAPES = (FAIR, SEMAPHORE, RW)


class Queue(QueueCalls):
    """The calls about one name, and where its keys are."""

    def __init__(
        self, shape: Shape = FAIR, name: str = "order:42", *, want: int = 0, capacity: int = 0, liveness_ms: int = 3_000
    ) -> None:
        weight, mints = shape.wants[want]
        capacity = capacity or shape.capacity
        super().__init__(KEYS, shape.kind, name, capacity=capacity, weight=weight, mints=mints, liveness_ms=liveness_ms)
        self.keys: tuple[str, ...] = self._keys.queue
        self.holders, self.expiry, self.queue, self.waiting, self.state = self.keys
        self.dead = self._keys.dead
        self.manager = KEYS.manager


class Holder(NamedTuple):
    """A holder's record, read."""

    depth: int
    weight: int
    mints: bool
    fence: int
    abandoned: bool


def holders(side: Side, name: Queue) -> dict[str, Holder]:
    found = {}
    for owner, record in side.hash(name.holders).items():
        if owner != "used":
            depth, weight, mints, fence, abandoned = map(int, record.split())
            found[owner] = Holder(depth, weight, bool(mints), fence, bool(abandoned))
    return found


def line(side: Side, name: Queue) -> list[str]:
    """Who waits, first to last."""
    return list(side.scores(name.queue))


def crash(side: Side, name: Queue, *owners: str) -> None:
    """The time of holders passes, without a release."""
    for owner in owners:
        side.score(name.expiry, owner, 1)


def forget(side: Side, name: Queue, *owners: str) -> None:
    """The time of waiters passes, without a sign of life."""
    for owner in owners:
        _, wish = side.hash(name.waiting)[owner].split(" ", 1)
        side.hset(name.waiting, {owner: f"1 {wish}"})


def enter(side: Side, name: Queue, owners: Sequence[str], ttl: int = 30_000, floor: int = 0) -> None:
    """They wait, in this order."""
    for owner in owners:
        side.run(name.acquire(owner, ttl, floor, f"about {owner}", ticket=0))
