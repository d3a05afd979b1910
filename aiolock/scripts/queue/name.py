"""The preludes as Python over a `Store`: name.lua, holders.lua, line.lua and each.lua, side by side with their Lua."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..base import TwinReply
from ..store import Store, WrongType

DAY, GRACE = 24 * 3600 * 1000, 60 * 1000


class Record(NamedTuple):
    """What a holder has: 'depth weight mints fence abandoned'."""

    depth: int = 0
    weight: int = 0
    mints: str = "0"
    fence: str = "0"
    abandoned: str = "0"


class Entry(NamedTuple):
    """What a waiter wants: 'alive-until brief weight mints floor ttl metadata'."""

    alive: int = 0
    brief: int = 0
    weight: int = 0
    mints: str = "0"
    floor: str = "0"
    ttl: int = 0
    metadata: str = ""


class Name:
    """One name of the family as its scripts see it.

    Args:
        store: where its keys are.
        keys: holders, expiry, queue, waiting, state.
        capacity: what it can hold at once, if nothing is stored.
        now_us: the one time of the script.
        channel: a manager's channel, before and after its id.
    """

    def __init__(
        self, store: Store, keys: Sequence[str], capacity: str, now_us: int, channel: Sequence[str] = ("", "")
    ) -> None:
        self.store = store
        self.now_us = now_us
        self.now: int = now_us // 1000
        self.channel = channel
        self.holders: str
        self.expiry: str
        self.queue: str
        self.waiting: str
        self.state: str
        self.holders, self.expiry, self.queue, self.waiting, self.state = keys
        state = store.hgetall(self.state)
        self.fence: int = int(state.get("fence", "0"))
        self.serial: int = int(state.get("serial", "0"))
        self.dirty: str = state.get("dirty", "0")
        self.capacity: int = int(state.get("capacity", capacity))
        self.metadata: str = state.get("metadata", "")
        self.resized: bool = "resized" in state
        self.used: int = int(store.hget(self.holders, "used") or 0)
        self.head = self.first()

    def first(self) -> str | None:
        return next(iter(self.store.zrange(self.queue, 0, 0)), None)

    def keep(self, key: str, ttl: int, fresh: bool = False) -> None:
        before = 0 if fresh else self.store.pttl(key)
        self.store.pexpire(key, max(before, DAY, ttl + GRACE))

    # name.lua

    def write(self, owner: str, record: Record) -> None:
        self.store.hset(self.holders, {owner: " ".join(map(str, record)), "used": str(self.used)})

    def grant(self, owner: str, ttl: int, weight: int, mints: str, floor: str, metadata: str) -> list[TwinReply]:
        abandoned, fresh = self.dirty, self.used <= 0
        self.serial, self.used, self.metadata = max(self.serial + 1, self.now_us), self.used + weight, metadata
        if mints == "1" or self.fence == 0:
            self.fence = max(self.fence + 1, int(floor) + 1, self.now_us)
        if mints == "1":
            self.dirty = "0"
        numbers = {"fence": str(self.fence), "serial": str(self.serial), "capacity": str(self.capacity)}
        self.store.hset(self.state, {**numbers, "dirty": self.dirty, "metadata": metadata})
        self.keep(self.state, ttl, fresh)
        self.store.zadd(self.expiry, self.now + ttl, owner)
        self.keep(self.expiry, ttl, fresh)
        self.write(owner, Record(1, weight, mints, str(self.fence), abandoned))
        self.keep(self.holders, ttl, fresh)
        return ["granted", str(self.fence), ttl, abandoned, self.capacity]

    # holders.lua

    def read(self, owner: str) -> Record:
        record = self.store.hget(self.holders, owner) if self.used > 0 else None
        if record is None:
            return Record()
        depth, weight, mints, fence, abandoned = record.split(" ")
        return Record(int(depth), int(weight), mints, fence, abandoned)

    def drop(self, owner: str, weight: int, dirty: bool) -> None:
        self.used -= weight
        if self.used > 0:
            self.store.hdel(self.holders, owner)
            self.store.hset(self.holders, {"used": str(self.used)})
            self.store.zrem(self.expiry, owner)
        else:
            self.store.delete(self.holders)
            self.store.delete(self.expiry)
        if dirty:
            self.dirty = "1"
            self.store.hset(self.state, {"dirty": "1"})
            self.keep(self.state, 0)

    def prune(self) -> None:
        over = self.store.zrangebyscore(self.expiry, 0, self.now) if self.used > 0 else []
        for owner in over:
            held = self.read(owner)
            self.drop(owner, held.weight, held.mints == "1")

    def extend(self, owner: str, ttl: int, fence: str) -> int:
        for key in (self.holders, self.expiry, self.state):
            self.keep(key, ttl)
        expires = max(self.now + ttl, self.store.zscore(self.expiry, owner) or 0)
        self.store.zadd(self.expiry, expires, owner)
        if int(fence) > self.fence:
            self.store.hset(self.state, {"fence": fence, "capacity": str(self.capacity)})
            self.keep(self.state, ttl)
        return expires - self.now

    def ends(self, index: int) -> int:
        """In how many ms: the first (0) or the last (-1) of those who hold; 0 if nobody does."""
        times = [self.store.zscore(self.expiry, owner) for owner in self.store.zrange(self.expiry, index, index)]
        return (times[0] or 0) - self.now if times else 0

    # line.lua

    def leave(self, owner: str) -> None:
        if self.head is None or self.store.zrem(self.queue, owner) == 0:
            return
        self.store.hdel(self.waiting, owner)
        self.head = self.first()

    def join(self, owner: str, ticket: int, liveness: int, entry: Entry) -> None:
        if ticket == 0:
            self.serial = ticket = max(self.serial + 1, self.now_us)
            self.store.hset(self.state, {"serial": str(ticket)})
            self.keep(self.state, 0)
        entry = entry._replace(alive=self.now + liveness)
        self.store.hset(self.waiting, {owner: " ".join(map(str, entry))})
        self.store.zadd(self.queue, ticket, owner)
        for key in (self.waiting, self.queue):
            self.keep(key, liveness)
        self.head = self.first()

    def settle(self, me: str = "") -> None:
        self.prune()
        while self.head is not None:
            head = self.head
            entry = self.wish(head)
            live = entry.alive > self.now and entry.weight <= self.capacity
            if live and self.used + entry.weight > self.capacity:
                return
            self.leave(head)
            if live:
                hears = head == me or self.store.numsub(self.told(head)) > 0
                lasts = entry.ttl if hears else entry.brief
                granted = self.grant(head, lasts, entry.weight, entry.mints, entry.floor, entry.metadata)
                if head != me:
                    self.tell(head, " ".join(map(str, ["granted", head, self.serial, *granted[1:]])))

    def wish(self, owner: str) -> Entry:
        entry = self.store.hget(self.waiting, owner)
        if entry is None:
            return Entry()
        alive, brief, weight, mints, floor, ttl, metadata = entry.split(" ", 6)
        return Entry(int(alive), int(brief), int(weight), mints, floor, int(ttl), metadata)

    def told(self, owner: str) -> str:
        """The channel of its manager."""
        before, after = self.channel
        return f"{before}{owner.partition(':')[0]}{after}"

    def tell(self, owner: str, message: str) -> None:
        self.store.publish(self.told(owner), message)

    def gone(self, weight: int) -> str:
        return "taken_over" if self.used + weight > self.capacity else "deleted"


def each(
    answer: Callable[[Sequence[str], Sequence[str]], TwinReply],
    keys: Sequence[str],
    args: Sequence[str],
    size: tuple[int, int],
) -> list[TwinReply]:
    """each.lua: answers each part of a batch by itself; `size` is how many keys and args a part has."""
    answers: list[TwinReply] = []
    for i in range(len(keys) // size[0]):
        part = keys[i * size[0] : (i + 1) * size[0]], args[i * size[1] : (i + 1) * size[1]]
        try:
            answers.append(answer(*part))
        except WrongType as error:
            answers.append(f"error {error}")
    return answers
