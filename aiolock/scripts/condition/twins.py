"""The condition's scripts as Python over a `Store`: the executable specification of the Lua beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..base import TwinReply
from ..store import Store

GRACE_MS = 60_000


@dataclass(slots=True)
class Entry:
    """One waiter."""

    owner: str
    number: int
    alive: int
    notified: int


class Line:
    """What line.lua has: the waiters of a condition, first to last."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self.now: int = store.wall_us() // 1000
        fields = store.hgetall(key).items()
        entries = [Entry(owner, *(int(word) for word in text.split(" "))) for owner, text in fields]
        self.entries: list[Entry] = sorted((one for one in entries if one.alive > self.now), key=lambda one: one.number)
        self.ended: list[str] = [one.owner for one in entries if one.alive <= self.now]
        self.passed: int = sum(one.notified for one in entries if one.alive <= self.now)

    def find(self, owner: str) -> Entry | None:
        return next((one for one in self.entries if one.owner == owner), None)

    def put(self, entry: Entry) -> None:
        self._store.hset(self._key, {entry.owner: f"{entry.number} {entry.alive} {entry.notified}"})

    def keep(self) -> None:
        ends = max((one.alive for one in self.entries), default=self.now)
        self._store.pexpire(self._key, max(ends, self.now) - self.now + GRACE_MS)

    def notify(self, count: int, channel: str) -> int:
        waiting = [one for one in self.entries if not one.notified][:count]
        for one in waiting:
            one.notified = 1
            self.put(one)
            self._store.publish(channel + one.owner.partition(":")[0], f"refresh {one.owner}")
        for owner in self.ended:
            if self.find(owner) is None:
                self._store.hdel(self._key, owner)
        return len(waiting)


def wait(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, liveness, joins, channel = args
    line = Line(store, keys[0])
    entry = line.find(owner)
    if entry is None and joins == "1":
        last = line.entries[-1].number + 1 if line.entries else 0
        entry = Entry(owner, max(last, store.wall_us()), line.now, 0)
        line.entries.append(entry)
    if entry is not None:
        entry.alive = max(entry.alive, line.now + int(liveness))
        line.put(entry)
    line.keep()
    line.notify(line.passed, channel)
    if entry is None:
        return "gone"
    return "notified" if entry.notified else "waiting"


def notify(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    count, channel = args
    line = Line(store, keys[0])
    line.keep()
    return max(0, line.notify(line.passed + int(count), channel) - line.passed)


def leave(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, passes, channel = args
    line = Line(store, keys[0])
    entry = line.find(owner)
    if entry is not None:
        store.hdel(keys[0], owner)
        line.passed += entry.notified if passes == "1" else 0
        line.entries.remove(entry)
    line.notify(line.passed, channel)
    return int(entry is not None)
