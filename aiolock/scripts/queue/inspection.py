"""How anyone can look at a semaphore or a read-write lock."""

from __future__ import annotations

from collections.abc import Sequence

from ...owner import came_at
from ..bid import slots_of, told
from ..keys import Keys
from ..view import Command, HolderInfo, NameView, WaiterInfo, number_of, pairs_of, seconds_since, short, text_of
from .records import SUMMARY, Holder, Summary, Waiter, read

FIRST = 10**15
"""Scores from here on are queue numbers, and those below are the ends of leases."""
FULL = 2**31
"""What a writer takes."""


class QueueInspection:
    """Looks at one name with a capacity; implements `Inspection`.

    Args:
        keys: names the keys.
        kind: "rw" or "semaphore".
        name: its name.
        deep: also list the holders and the queue.
        now_ms: about the server's time.
    """

    def __init__(self, keys: Keys, kind: str, name: str, deep: bool, now_ms: int) -> None:
        self._kind = kind
        self._name = name
        self._deep = deep
        state, order = keys.of(kind, name).queue
        self.commands: Sequence[Command] = [
            ("HMGET", state, *SUMMARY),
            ("ZCOUNT", order, f"({now_ms}", f"({FIRST}"),
            ("ZREVRANGEBYSCORE", order, f"({FIRST}", f"({now_ms}", "WITHSCORES", "LIMIT", "0", "1"),
            ("ZRANGEBYSCORE", order, str(FIRST), "+inf", "WITHSCORES", "LIMIT", "0", "1"),
        ]
        if deep:
            self.commands = [*self.commands, ("HGETALL", state), ("ZRANGE", order, "0", "-1", "WITHSCORES")]

    def decode(self, replies: Sequence[object], now_us: int) -> NameView | None:
        """See `Inspection.decode`."""
        values = replies[0] if isinstance(replies[0], list) else []
        summary = Summary.read({name: text_of(value) for name, value in zip(SUMMARY, values, strict=False) if value})
        if not summary.version:
            return None
        live = number_of(replies[1])
        last, first = pairs_of(replies[2]), pairs_of(replies[3])
        holders, queue = self._lists(replies, now_us) if self._deep else ((), ())
        used = max(0, summary.used - (summary.holders - live))  # those that expired count as 1 each, as in info.lua
        if self._deep:
            used = sum(holder.permits for holder in holders)
        state = "free"
        if live:
            writing, full = used >= FULL, used >= summary.capacity
            state = ("write" if writing else "read") if self._kind == "rw" else "full" if full else "held"
        if self._kind == "rw":
            used = live
        process, metadata = told(summary.process) if live else ("", None)
        alone = live and state != "read"  # readers share the fence of the first, or of the writer before
        return NameView(
            self._kind,
            self._name,
            state,
            process,
            metadata,
            summary.fence,
            max(0.0, (number_of(last[0][1].encode()) - now_us / 1000) / 1000) if last else None,
            seconds_since(summary.fence, now_us) if alone else None,
            used=used,
            capacity=1 if self._kind == "rw" else summary.capacity,
            waiting=summary.waiters,
            oldest_wait=seconds_since(came_at(first[0][0], float(first[0][1])), now_us) if first else None,
            holders=holders,
            queue=queue,
        )

    def _lists(self, replies: Sequence[object], now_us: int) -> tuple[tuple[HolderInfo, ...], tuple[WaiterInfo, ...]]:
        records = dict(pairs_of(replies[4]))
        holders: list[HolderInfo] = []
        waiters: list[WaiterInfo] = []
        for owner, score in pairs_of(replies[5]):
            record, left = read(records.get(owner)), float(score) - now_us / 1000
            if isinstance(record, Holder) and left > 0:
                permits = 1 if self._kind == "rw" and record.weight < FULL else record.weight
                process, more = told(record.process)
                reads = self._kind == "rw" and record.weight < FULL
                since = None if reads else seconds_since(int(record.fence), now_us)
                held = (int(record.fence), record.depth, permits, left / 1000, since, slots_of(record.process))
                holders.append(HolderInfo(short(owner), process, more, *held))
            elif isinstance(record, Waiter):
                process, _ = told(record.process)
                writes = record.weight >= FULL
                wants = "permits" if self._kind == "semaphore" else "write" if writes else "read"
                permits = record.weight if self._kind == "semaphore" else 1
                waited = seconds_since(came_at(owner, float(score)), now_us)
                alive = record.until > now_us // 1000
                waiters.append(WaiterInfo(len(waiters) + 1, short(owner), process, wants, permits, waited, alive))
        holders.sort(key=lambda one: (one.fence, one.manager))  # in the order in which they came in
        return tuple(holders), tuple(waiters)
