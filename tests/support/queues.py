"""Names of the queue family in their three shapes, and a view of what the scripts keep of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from aiolock.scripts.base import DONT_QUEUE, Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.outcomes import AcquireOutcome
from aiolock.scripts.queue import ACQUIRE, QueueCalls
from aiolock.scripts.queue.inspection import FIRST as FIRST
from aiolock.scripts.queue.records import SUMMARY as SUMMARY
from aiolock.scripts.queue.records import Holder, Summary, Waiter, read

from .scripting import Side

KEYS = Keys("aiolock")
FULL = 2**31
"""The capacity of a read-write lock, and the weight of a writer."""


class Shape(NamedTuple):
    """What makes a kind: its capacity, and (weight, mints) for each of its acquisitions."""

    kind: str
    capacity: int
    wants: tuple[tuple[int, bool], ...]


FAIR = Shape("fair", 1, ((1, True),))
SEMAPHORE = Shape("semaphore", 3, ((1, True), (2, True), (3, True)))
RW = Shape("rw", FULL, ((1, False), (FULL, True)))
SHAPES = (FAIR, SEMAPHORE, RW)


class Queue(QueueCalls):
    """The calls about one name, and the place of its keys."""

    def __init__(
        self, shape: Shape = FAIR, name: str = "order:42", *, want: int = 0, capacity: int = 0, liveness_ms: int = 3_000
    ) -> None:
        weight, mints = shape.wants[want]
        self.capacity: int = capacity or shape.capacity
        super().__init__(
            KEYS, shape.kind, name, capacity=self.capacity, weight=weight, mints=mints, liveness_ms=liveness_ms
        )
        self.keys: tuple[str, ...] = self._keys.queue
        self.hash, self.order = self.keys
        self.dead = self._keys.dead
        self.manager = KEYS.manager

    def request(
        self,
        owner: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        depth: int = 1,
        fence: int = 0,
        queue_number: int = DONT_QUEUE,
    ) -> Call[AcquireOutcome]:
        """An acquire with everything that the script knows; the core uses only a part of it at a time."""
        keys, args = self._part(Bid(owner, ttl_ms, floor, metadata, number=queue_number), depth, fence)
        return Call(self.name, ACQUIRE, keys, (self._channel, *args))


class Standing(NamedTuple):
    """What is kept of a name: its state, who holds, who waits, and until when or with which queue number."""

    summary: Summary
    holders: dict[str, Holder]
    waiters: dict[str, Waiter]
    order: dict[str, int]


RARE = ("abandoned", "resized", "shut", "state")
"""The fields that are in a hash only once they were needed."""


def encode(record: Holder | Waiter) -> str:
    """The text that the server keeps of it."""
    word = "holds" if isinstance(record, Holder) else "waits"
    facts = zip([name.removeprefix("queue_") for name in record._fields], record, strict=True)
    return " ".join((word, *(f"{name}={value}" for name, value in facts)))


def fields(summary: Summary) -> dict[str, str]:
    """The fields that a hash has of it, but for those that say nothing."""
    return {name: str(value) for name, value in vars(summary).items() if name not in RARE or value not in ("0", 0)}


def standing(side: Side, name: Queue) -> Standing:
    records = {owner: read(text) for owner, text in side.hash(name.hash).items() if owner not in SUMMARY}
    return Standing(
        summary(side, name),
        {owner: record for owner, record in records.items() if isinstance(record, Holder)},
        {owner: record for owner, record in records.items() if isinstance(record, Waiter)},
        side.scores(name.order),
    )


def holders(side: Side, name: Queue) -> dict[str, Holder]:
    return standing(side, name).holders


def summary(side: Side, name: Queue) -> Summary:
    return Summary.read({"version": "0.3", "capacity": str(name.capacity)} | side.hash(name.hash))


def change(side: Side, name: Queue, **facts: Any) -> None:
    """Change its state."""
    side.hset(name.hash, fields(replace(summary(side, name), **facts)))


def ends(side: Side, name: Queue) -> dict[str, int]:
    """When each holder's time is over, in server ms."""
    held = holders(side, name)
    return {owner: score for owner, score in side.scores(name.order).items() if owner in held}


def queue_numbers(side: Side, name: Queue) -> dict[str, int]:
    """Who waits, first to last."""
    return {owner: score for owner, score in side.scores(name.order).items() if score >= FIRST}


def waiting(side: Side, name: Queue) -> list[str]:
    """Who waits, first to last."""
    return list(queue_numbers(side, name))


def crash(side: Side, name: Queue, *owners: str) -> None:
    """Let the time of holders run out, without a release."""
    for owner in owners:
        side.score(name.order, owner, 1)


def forget(side: Side, name: Queue, *owners: str) -> None:
    """Let the time of waiters run out, without a heartbeat."""
    waiters = standing(side, name).waiters
    if owners:
        side.hset(name.hash, {owner: encode(waiters[owner]._replace(until=1)) for owner in owners})


def move(side: Side, name: Queue, ahead: int) -> None:
    """Let its slot be moved to a server whose clock is this many ms ahead. All that is kept is by the clock of the
    first, while keys keep how long they last.
    """
    known = standing(side, name)
    records = {owner: encode(one._replace(until=one.until - ahead)) for owner, one in known.waiters.items()}
    moments = {
        name: str(getattr(known.summary, name) - ahead) for name in ("expires", "shut") if getattr(known.summary, name)
    }
    if moved := records | moments:
        side.hset(name.hash, moved)
    for owner in known.holders.keys() & known.order.keys():
        side.score(name.order, owner, known.order[owner] - ahead)


def elapse(side: Side, name: Queue, ms: int) -> None:
    """Let time pass: until every moment, and for the keys."""
    left = {key: side.pttl(key) for key in name.keys}
    move(side, name, ms)
    for key in name.keys:
        if left[key] > 0:
            side.shorten(key, left[key] - ms)


def own_time(side: Side, name: Queue) -> int:
    """The ms by which its moments count."""
    now, left = time.time_ns() // 1_000_000, side.pttl(name.hash)
    return min(now, summary(side, name).expires - left) if left > 0 else now


def enter(side: Side, name: Queue, owners: Sequence[str], ttl: int = 30_000, floor: int = 0) -> None:
    """Have them wait, in this order."""
    for owner in owners:
        side.run(name.request(owner, ttl, floor, f"about {owner}", queue_number=0))


def assert_sound(side: Side, name: Queue) -> None:
    """Check what must hold after every request on a name, whatever happened to its keys before.

    Raises:
        AssertionError: an owner is counted that is not there, or would wait for ever.
    """
    found = standing(side, name)
    told = f"{side}: {found}"
    assert found.summary.used == sum(held.weight for held in found.holders.values()), told
    assert (found.summary.holders, found.summary.waiters) == (len(found.holders), len(found.waiters)), told
    known = set(side.hash(name.hash))
    assert known - set(SUMMARY) == found.holders.keys() | found.waiters.keys(), f"something is left over: {told}"
    assert not known or known.issuperset(set(SUMMARY) - set(RARE)), f"something is missing: {told}"
    assert all(0 < found.order.get(owner, 0) < FIRST for owner in found.holders), f"a holder stays for ever: {told}"
    assert all(found.order.get(owner) == waiter.queue_number for owner, waiter in found.waiters.items()), told
    now = own_time(side, name)
    assert all(found.order[owner] > now - 5_000 for owner in found.holders), (
        f"a holder stays though its time is over: {told}"
    )
    for _, owner in sorted((waiter.queue_number, owner) for owner, waiter in found.waiters.items())[:1]:
        first = found.waiters[owner]
        assert found.summary.used + first.weight > found.summary.capacity, f"the first in line could enter: {told}"
