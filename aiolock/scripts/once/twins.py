"""The scripts of `once()` as Python over a `Store`: the executable specification of the Lua beside it."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import TwinReply
from ..lock.name import Name
from ..store import Store


def last_run(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    record = Record(store, keys)
    lock = record.lock
    if record.fence or not lock.live:
        return record.told(0)
    return [0, str(lock.fence), "held", max(0, lock.now - lock.fence // 1000), 0, lock.metadata.partition("\n")[0]]


def begin(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    fence, window, repeatable, by = args
    record = Record(store, keys)
    if not record.lock.live or record.lock.fence != int(fence):
        return record.told(0)
    if record.fence == fence and record.status == "running":
        return record.told(1)
    if record.fence and f" {record.status} " not in repeatable:
        return record.told(0)
    store.hset(
        keys[1], {"fence": fence, "started": str(record.lock.now), "status": "running", "by": by, **record.before()}
    )
    store.pexpire(keys[1], int(window))
    return Record(store, keys).told(1)


def finish(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    (key,) = keys
    fence, status = args
    kept = store.hget(key, "fence")
    if kept is None or fence not in ("", kept):
        return 0
    if status == "":
        return store.delete(key)
    store.hset(key, {"status": status})
    return 1


def undo(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    (key,), (fence,) = keys, args
    run, now = store.hgetall(key), store.wall_us() // 1000
    if run.get("fence") != fence:
        return 0
    if "before" not in run or int(run["until"]) <= now:
        return store.delete(key)
    store.pexpire(key, int(run["until"]) - now)
    old = {"fence": run["before"], **{field: run[f"{field} before"] for field in ("started", "status", "by")}}
    store.hset(key, old)
    return 1


class Record:
    """run.lua."""

    def __init__(self, store: Store, keys: Sequence[str]) -> None:
        self.lock: Name = Name(store, keys[:1])
        kept = store.hgetall(keys[1])
        self.fence: str = kept.get("fence", "")
        self.started: int = int(kept.get("started", 0))
        self.status: str = kept.get("status", "")
        self.by: str = kept.get("by", "")
        if self.status == "running" and not (self.lock.live and self.lock.fence == int(self.fence)):
            self.status = "interrupted"
        self.left: int = max(0, store.pttl(keys[1]))

    def before(self) -> dict[str, str]:
        """What a run that replaces this one keeps of it."""
        if not self.fence:
            return {}
        told = {"started": str(self.started), "status": self.status, "by": self.by}
        until = str(self.lock.now + self.left)
        return {"before": self.fence, "until": until, **{f"{field} before": value for field, value in told.items()}}

    def told(self, mine: int) -> TwinReply:
        if not self.fence:
            return [mine]
        return [mine, self.fence, self.status, max(0, self.lock.now - self.started), self.left, self.by]
