"""A name as the Lua's preludes see it, in Python over a `Store`: its state, its queue and its living managers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..base import believable
from ..keys import DIRTY_MS
from ..store import Store, WrongType

MOST_ENTRIES = 1000
"""How many entries of a queue one request looks at."""
MANY_MANAGERS = 64
"""How many more managers than waiters are known before those that are gone are forgotten."""
LEAST_KEPT_MS = 60_000
_STATE = re.compile(r"(\S+) (\d+) (\d+) (\d+) (\d) (\d+) (.*)", re.DOTALL)


class Name:
    """state.lua, settle.lua, alive.lua and join.lua.

    Args:
        store: where it is.
        keys: its state, queue and alive; a script that needs less leaves them out at the end.

    Attributes:
        now: the server's time, in ms; `now_us` in µs.
        holder: who holds it, or who held it last and is past its time; '-' if no one.
        fence: of the last grant.
        before: the fence known before that one was minted; for a grant from the queue, its number there.
        depth: 0: granted from the queue, and its process has not asked since.
        dirty: what the holder was told as `abandoned`; for a free name what the next holder is told.
        expires: when the hold ends, in ms.
        metadata: what the holder says of itself.
        ended: who held it before this request ended it.
        last: the last number in the queue, 0 if it is empty.
    """

    key: str
    queue: str
    alive: str
    now_us: int
    now: int
    holder: str
    fence: int
    before: int
    depth: int
    dirty: str
    expires: int
    metadata: str

    def __init__(self, store: Store, keys: Sequence[str]) -> None:
        self.store: Store = store
        self.key = keys[0]
        self.queue, self.alive = (*keys[1:3], "", "")[:2]
        self.now_us = store.wall_us()
        self.now = self.now_us // 1000
        self.ended: str | None = None
        self.last_fence: int | None = None
        state = _STATE.fullmatch(store.get(self.key) or "- 0 0 0 0 0 ")
        if state is None:
            raise WrongType
        self.holder, fence, before, depth, self.dirty, expires, self.metadata = state.groups()
        self.fence, self.before, self.depth, self.expires = int(fence), int(before), int(depth), int(expires)
        if self.holder != "-" and not self.live:  # by another clock
            self.expires = max(self.expires, self.now + store.pttl(self.key) - DIRTY_MS)

    @property
    def live(self) -> bool:
        """Whether a hold on it lasts."""
        return self.expires > self.now

    @property
    def pttl(self) -> int:
        """For how long it is held, in ms; 0 if it is free."""
        return max(0, self.expires - self.now)

    @property
    def gone(self) -> str:
        """Why an owner that should hold it does not."""
        return "taken_over" if self.live else "deleted"

    @property
    def last(self) -> int:
        found = self.store.zrange(self.queue, -1, -1)
        return (self.store.zscore(self.queue, found[0]) or 0) if found else 0

    @property
    def granted(self) -> str:
        """The answer to its holder."""
        return f"granted {self.fence} {self.pttl} {self.dirty}"

    def queued(self, owner: str) -> str:
        """The answer to a waiter."""
        number, rank = self.store.zscore(self.queue, owner), self.store.zrank(self.queue, owner) + 1
        return f"queued {number} {rank} {self.pttl} {self.fence} {self.metadata}"

    def vacate(self, dirty: str | None = None) -> None:
        """End the hold; by default the next holder is told what an expiry means. Not written yet."""
        self.dirty = dirty or ("1" if self.holder != "-" and self.depth else self.dirty)
        self.ended, self.holder, self.depth, self.expires, self.metadata = self.holder, "-", 0, 0, ""

    def write(self, px: int | None = None) -> None:
        lasting = DIRTY_MS + max(0, self.expires - self.now)
        facts = (self.holder, self.fence, self.before, self.depth, self.dirty, self.expires, self.metadata)
        self.store.set(self.key, " ".join(map(str, facts)), lasting if px is None else px)

    def grant(self, owner: str, depth: int, expires: int, metadata: str, floor: str, number: int | None = None) -> None:
        """Give a free name to an owner; its fence is minted once, however many are tried."""
        if self.last_fence is None:
            self.last_fence, self.fence = self.fence, max(self.fence + 1, believable(floor) + 1, self.now_us)
        self.before = self.last_fence if number is None else number
        self.holder, self.depth, self.expires, self.metadata = owner, depth, expires, metadata
        self.write()

    def own(self, ttl: int, metadata: str, floor: str) -> None:
        """What its holder has becomes, or stays, a hold for at least `ttl` ms."""
        given, known = not self.depth, believable(floor)
        self.last_fence = None if given and self.fence < known else self.before
        ends = self.now + ttl if given else max(self.expires, self.now + ttl)
        self.grant(self.holder, self.depth or 1, ends, metadata, floor)

    def settle(self, channel: str, me: str | None, floor: str) -> str | None:
        """Give a free name to the first in its queue that lives and hears.

        Returns:
            That one, told; or `me`, which is first and must still be granted; None if there is none; '' if unknown.
        """
        deaf: list[str] = []
        for _ in range(MOST_ENTRIES):
            entry = next(iter(self.store.zrange(self.queue, len(deaf), len(deaf))), None)
            if entry is None or entry == me:
                return entry
            manager = entry.partition(":")[0]
            known, _, process = (self.store.hget(self.alive, manager) or "0").partition(" ")
            until = int(known.rstrip("+"))
            if until <= self.now or entry == self.ended:
                self.store.zrem(self.queue, entry)
                continue
            if known.endswith("+") and not self.store.numsub(channel + manager):
                deaf.append(entry)
                continue
            until = min(until, self.now + most(entry, until))
            self.grant(entry, 0, until, process, floor, self.store.zscore(self.queue, entry))
            told = f"granted {entry} {self.fence} {self.dirty} {self.key}"
            self.store.publish(channel + manager, told)
            self.store.zrem(self.queue, entry)
            return entry
        self.disperse(channel, deaf)
        return ""

    def disperse(self, channel: str, deaf: Sequence[str]) -> None:
        """End the places of those at the front who live but do not hear, if a request saw nobody else."""
        for entry in deaf:
            self.store.zrem(self.queue, entry)
        for last in self.store.zrange(self.queue, -1, -1):
            self.store.publish(channel + last.partition(":")[0], f"refresh {last}")

    def lives(self, owner: str, liveness: int, counted: str, metadata: str) -> bool:
        """Record that the owner's manager lives, and its process; return whether that was news."""
        manager = owner.partition(":")[0]
        unknown = self.store.hget(self.alive, manager) is None
        process = metadata.partition("\n")[0]
        self.store.hset(self.alive, {manager: f"{self.now + liveness}{'+' if counted == '1' else ''} {process}"})
        return unknown

    def keep(self, key: str, ms: int, new: bool = False) -> None:
        """Extend a key's expiry, never shorten it, unless it is `new`."""
        self.store.pexpire(key, ms if new else max(ms, self.store.pttl(key)))

    def sweep(self) -> None:
        """If many managers are gone, forget them; a server only some of them at a time."""
        if self.store.hlen(self.alive) <= self.store.zcard(self.queue) + MANY_MANAGERS:
            return
        for manager, known in self.store.hgetall(self.alive).items():
            if int(known.partition(" ")[0].rstrip("+")) <= self.now:
                self.store.hdel(self.alive, manager)

    def join(self, owner: str, liveness: int, counted: str, metadata: str, number: int | None = None) -> bool:
        """Put an owner at the end of the queue, or at the place it had, unless it is in the queue.

        Returns:
            Whether it was news that its manager lives.
        """
        ms, last = kept(liveness), self.last
        if number is None:
            number = max(last + 1, self.now_us)
        unknown = liveness > 0 and self.lives(owner, liveness, counted, metadata)
        new, later = last == 0, last // (ms * 250) < number // (ms * 250)
        if new or later or unknown:
            self.keep(self.alive, ms, new)
        if unknown:
            self.sweep()
        if self.store.zscore(self.queue, owner) is None:
            self.store.zadd(self.queue, number, owner)
        if new or later:
            self.keep(self.queue, ms, new)
        return unknown


def most(owner: str, otherwise: int) -> int:
    """For how many ms its id says that it may have the name before it asks."""
    return int(owner.partition("~")[2] or otherwise)


def kept(liveness: int) -> int:
    """How long, in ms, a queue outlives the last request about it."""
    return max(LEAST_KEPT_MS, 20 * abs(liveness))
