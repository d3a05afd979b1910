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


def parse(owner: str, text: str) -> Entry:
    return Entry(owner, *(int(word) for word in text.split(" ")))


class Line:
    """What line.lua has after look(): the waiters of a condition, first to last."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self.now: int = store.wall_us() // 1000
        fields = store.hgetall(key).items()
        entries = [parse(owner, text) for owner, text in fields]
        self.entries: list[Entry] = sorted((one for one in entries if one.alive > self.now), key=lambda one: one.number)
        self.ended: list[str] = [one.owner for one in entries if one.alive <= self.now]
        self.passed: int = sum(one.notified for one in entries if one.alive <= self.now)

    def find(self, owner: str) -> Entry | None:
        return next((one for one in self.entries if one.owner == owner), None)

    def keep(self) -> None:
        ends = max((one.alive for one in self.entries), default=self.now)
        self._store.pexpire(self._key, max(ends, self.now) - self.now + GRACE_MS)

    def notify(self, count: int, channel: str) -> int:
        waiting = [one for one in self.entries if not one.notified][:count]
        for one in waiting:
            one.notified = 1
            put(self._store, self._key, one)
            self._store.publish(channel + one.owner.partition(":")[0], f"refresh {one.owner}")
        for owner in self.ended:
            if self.find(owner) is None:
                self._store.hdel(self._key, owner)
        return len(waiting)


def put(store: Store, key: str, entry: Entry) -> None:
    store.hset(key, {entry.owner: f"{entry.number} {entry.alive} {entry.notified}"})


def wait(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, liveness, joins, looks, channel = args
    now, text = store.wall_us() // 1000, store.hget(keys[0], owner)
    if looks == "0" and text is not None and (known := parse(owner, text)).alive > now:
        known.alive = max(known.alive, now + int(liveness))
        put(store, keys[0], known)
        store.pexpire(keys[0], max(store.pttl(keys[0]), known.alive - now + GRACE_MS))
        return ["notified" if known.notified else "waiting", store.hlen(keys[0])]
    line = Line(store, keys[0])
    entry = line.find(owner)
    if entry is None and joins == "1":
        last = line.entries[-1].number + 1 if line.entries else 0
        entry = Entry(owner, max(last, store.wall_us()), line.now, 0)
        line.entries.append(entry)
    if entry is not None:
        entry.alive = max(entry.alive, line.now + int(liveness))
        put(store, keys[0], entry)
    line.keep()
    line.notify(line.passed, channel)
    state = "gone" if entry is None else "notified" if entry.notified else "waiting"
    return [state, store.hlen(keys[0])]


def notify(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    count, channel = args
    line = Line(store, keys[0])
    line.keep()
    return max(0, line.notify(line.passed + int(count), channel) - line.passed)


def leave(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, passes, channel = args
    text = store.hget(keys[0], owner)
    if text is None:
        return 0
    store.hdel(keys[0], owner)
    if passes == "1" and parse(owner, text).notified:
        line = Line(store, keys[0])
        line.notify(line.passed + 1, channel)
    return 1
