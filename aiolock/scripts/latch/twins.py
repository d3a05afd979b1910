"""The latch's scripts as Python over a `Store`: the executable specification of the Lua beside it."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import TwinReply
from ..store import Store


def count_down(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    (key,) = keys
    counter, total, ttl, channel = args
    latch = store.hgetall(key)
    left, total = int(latch.get("left", total)), latch.get("total", total)
    lasting = max(int(ttl), store.pttl(key))
    store.pexpire(key, lasting)
    if left > 0 and counter not in latch:
        left -= 1
        if left == 0:
            store.delete(key)
            store.hset(key, {"left": "0", "total": total})
            store.publish(channel, "open")
        else:
            store.hset(key, {"left": str(left), "total": total, counter: "1"})
        store.pexpire(key, lasting)
    return [left, int(total)]


def query(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    (key,) = keys
    total, ttl = args
    latch = store.hgetall(key)
    left, total = latch.get("left", total), latch.get("total", total)
    lasting = max(int(ttl), store.pttl(key))
    if "left" not in latch:
        store.hset(key, {"left": left, "total": total})
    store.pexpire(key, lasting)
    return [int(left), int(total)]


def delete(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    (key,) = keys
    return int(store.delete(key))
