"""The state of a name as a script of the family sees it: what state.lua, record.lua, holders.lua, queue.lua, heal.lua,
turn.lua and close.lua promise together, in Python over a `Store`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base import TwinReply, believable
from ..keys import GRACE_MS
from ..store import Store
from .records import Holder, Record, Summary, Waiter, encode, read

DAY = 24 * 3600 * 1000
FIRST = 10**15
"""The lowest queue number: every server time in ms is below it."""
ROOM = 250
"""How many may come and go in one script."""
STATE = "state"


class Run:
    """One run of a script.

    Args:
        store: what it works on.
        channel: that of managers, without their ids.
    """

    def __init__(self, store: Store, channel: str = "") -> None:
        self.store = store
        self.channel = channel
        self.now_us: int = store.wall_us()
        self.now: int = self.now_us // 1000
        self.room: int = ROOM
        self.states: dict[str, State] = {}

    def read(self, keys: Sequence[str], capacity: str) -> State:
        """Return the state of a name, as it is found."""
        return State(self, keys, capacity)

    def open(self, keys: Sequence[str], capacity: str = "0") -> State:
        """Return the state of a name, its counts in order; `capacity` is what it can hold, if nothing is stored."""
        state = self.states.get(keys[0])
        if state is None:
            state = self.read(keys, capacity)
            state.check()
            self.states[keys[0]] = state
        return state


class State:
    """What a script reads of a name when it asks, and what it changes, written when it is closed.

    Args:
        run: the run of the script.
        keys: the name's hash and its order.
        capacity: what it can hold at once, if nothing is stored.
    """

    def __init__(self, run: Run, keys: Sequence[str], capacity: str) -> None:
        self.run = run
        self.store: Store = run.store
        self.key: str
        self.order: str
        self.key, self.order = keys[:2]
        stored = self.store.hget(self.key, STATE)
        self.known: int = int(stored is not None)
        self.summary: Summary = Summary.read(stored or f"0 0 0 0 0 {capacity} 0 0 0 0 ")
        self.before: str = self.summary.encode()
        self.records: dict[str, Record | None] = {}  # what the script changed
        self.scores: dict[str, int] = {}
        self.told: list[tuple[str, str]] = []
        self.asking: set[str] = set()
        self.seen: int = 0  # this many of the waiters were looked at
        self.pruned: bool = False
        self.cut: bool = False
        self.joined: bool = False

    def check(self) -> None:
        """Make its counts those of its records, and put each record into its order."""
        summary, store = self.summary, self.store
        counted = summary.holders + summary.waiters
        if (
            store.hlen(self.key) != counted + self.known
            or (counted > 0 and store.zcard(self.order) < counted)
            or (summary.waiters > 0 and store.zcount(self.order, FIRST) < summary.waiters)
        ):
            self.heal()

    def heal(self) -> None:
        summary, store = self.summary, self.store
        summary.used = summary.holders = summary.waiters = 0
        self.joined = True
        for owner, text in store.hgetall(self.key).items():
            record = read(text)
            if isinstance(record, Waiter):
                summary.waiters += 1
                store.zadd(self.order, record.queue_number, owner)
            elif isinstance(record, Holder):
                summary.holders += 1
                summary.used += record.weight
                if store.zscore(self.order, owner) is None:
                    store.zadd(self.order, self.run.now + summary.longest, owner)
            elif owner != STATE:
                store.hdel(self.key, owner)

    # Records.

    def record(self, owner: str) -> Record | None:
        return self.records[owner] if owner in self.records else read(self.store.hget(self.key, owner))

    def holder(self, owner: str) -> Holder | None:
        found = self.record(owner)
        return found if isinstance(found, Holder) else None

    def waiter(self, owner: str) -> Waiter | None:
        found = self.record(owner)
        return found if isinstance(found, Waiter) else None

    def remove(self, owner: str) -> None:
        self.records[owner] = None
        self.scores.pop(owner, None)

    # Holders.

    def grant(
        self, owner: str, depth: int, ttl: int, weight: int, mints: str, floor: str, metadata: str
    ) -> list[TwinReply]:
        summary, now_us = self.summary, self.run.now_us
        abandoned = summary.dirty
        highest = believable(floor)
        if mints == "1" or summary.fence == 0:
            summary.fence = max(summary.fence + 1, highest + 1, now_us)
        if mints == "1":
            summary.dirty = "0"
        summary.longest = max(summary.longest if summary.holders + summary.waiters else 0, ttl)
        summary.serial, summary.metadata = max(summary.serial + 1, now_us), metadata
        summary.used += weight
        summary.holders += 1
        self.records[owner] = Holder(depth, weight, mints, str(summary.fence), abandoned)
        self.scores[owner] = self.run.now + ttl
        return ["granted", str(summary.fence), ttl, abandoned, summary.capacity]

    def drop(self, owner: str, weight: int, dirty: bool) -> None:
        self.summary.used -= weight
        self.summary.holders -= 1
        if dirty:
            self.summary.dirty = "1"
        self.remove(owner)

    def extend(self, owner: str, ttl: int) -> int:
        stored = self.scores.get(owner) or self.store.zscore(self.order, owner) or 0
        self.scores[owner] = ends = max(self.run.now + ttl, stored)
        self.summary.longest = max(self.summary.longest, ttl)
        return ends - self.run.now

    def gone(self, weight: int) -> str:
        used = self.summary.used
        return "taken_over" if used > 0 and used + weight > self.summary.capacity else "deleted"

    def fit(self, capacity: str) -> None:
        """What nobody holds or waits for has the capacity that who comes now says, unless it was set for all."""
        if self.summary.holders + self.summary.waiters == 0 and self.summary.resized == "0":
            self.summary.capacity = int(capacity)

    # Waiters.

    def join(self, owner: str, wish: Waiter) -> None:
        """Change the record to `wish`; a waiter keeps its queue number, and 0 asks for a new one."""
        summary, waits = self.summary, self.waiter(owner)
        queue_number = wish.queue_number if waits is None else waits.queue_number
        if waits is None:
            if queue_number == 0:
                summary.serial = queue_number = max(summary.serial + 1, self.run.now_us, FIRST)
            queue_number = max(queue_number, FIRST)
            summary.serial = max(summary.serial, queue_number)  # every later number differs
            self.store.zadd(self.order, queue_number, owner)
            summary.waiters += 1
            self.joined = True
        self.asking.add(owner)
        self.records[owner] = wish._replace(queue_number=queue_number)

    def leave(self, owner: str) -> None:
        if self.waiter(owner) is not None:
            self.summary.waiters -= 1
        if self.holder(owner) is None:
            self.remove(owner)

    def channel(self, owner: str) -> str:
        """The channel for messages to an owner's manager."""
        return self.run.channel + owner.partition(":")[0]

    def tell(self, owner: str, message: str) -> None:
        self.told.append((self.channel(owner), message))

    # Whose turn it is.

    def prune(self) -> None:
        """Drop holders whose time is over."""
        if self.pruned or self.summary.holders == 0:
            return
        self.pruned = True
        if self.store.zcount(self.order, 0, self.run.now) == 0:
            return
        over = self.store.zrangebyscore(self.order, 0, self.run.now, limit=self.run.room)
        self.cut = len(over) == self.run.room
        self.run.room -= len(over)
        for owner in over:
            held = self.holder(owner)
            if held is not None and owner not in self.scores:
                self.drop(owner, held.weight, held.mints == "1")
            else:
                self.leave(owner)

    def settle(self) -> None:
        """Let in the next in line, as long as there is room."""
        self.prune()
        summary = self.summary
        waiting = summary.waiters > 0 and summary.shut <= self.run.now
        for head in (
            self.store.zrangebyscore(self.order, FIRST, skip=self.seen, limit=self.run.room + 1) if waiting else ()
        ):
            if summary.waiters == 0:
                return
            entry = self.waiter(head)
            live = entry is not None and entry.alive > self.run.now and entry.weight <= summary.capacity
            full = entry is not None and live and summary.used + entry.weight > summary.capacity
            if full or self.run.room == 0:
                self.cut = self.cut or not full
                if self.cut and head not in self.asking:
                    self.tell(head, f"refresh {head}")
                return
            self.seen += 1
            self.run.room -= 1
            self.leave(head)
            if entry is not None and live:
                self.admit(head, entry)

    def admit(self, head: str, entry: Waiter) -> None:
        """Grant it to the first in line: for its ttl if it asks now, otherwise as long as it counts as alive."""
        asks = head in self.asking
        lasts = entry.ttl if asks else min(entry.ttl, entry.alive - self.run.now)
        _, fence, _, *rest = self.grant(head, 0, lasts, entry.weight, entry.mints, entry.floor, entry.metadata)
        self.summary.longest = max(self.summary.longest, entry.ttl)
        if not asks:
            facts = ["admitted", head, self.summary.serial, fence, entry.provisional, *rest, self.key]
            self.tell(head, " ".join(map(str, facts)))

    def close(self, clean_ttl: int | None = None) -> None:
        """Write what changed, and then announce it."""
        summary, store = self.summary, self.store
        idle = summary.holders + summary.waiters == 0
        fields = {owner: encode(record) for owner, record in self.records.items() if record is not None}
        ended = [owner for owner, record in self.records.items() if record is None]
        if summary.encode() != self.before:
            fields[STATE] = summary.encode()
        lasting = max(DAY, summary.longest + GRACE_MS)
        if clean_ttl is not None and idle and summary.dirty == "0" and summary.resized == "0":
            lasting = clean_ttl
        for owner, score in self.scores.items():
            store.zadd(self.order, score, owner)
        if self.scores or self.joined:
            store.pexpire(self.order, lasting)
        if fields:
            store.hset(self.key, fields)
        for owner in ended:
            store.hdel(self.key, owner)
            if not idle:
                store.zrem(self.order, owner)
        if ended and idle:
            store.delete(self.order)
        if self.scores or fields or ended:
            store.pexpire(self.key, lasting)
        for channel, message in self.told:
            store.publish(channel, message)
