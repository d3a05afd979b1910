"""The scripts in Python over a `Store`: whether a write may run. What it writes is the user's, so nothing runs here."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import TwinReply
from ..lock.name import Name
from ..queue.state import Run
from ..store import Store, WrongType

HOUR_MS = 3_600_000


def under_lock(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    names = [Name(store, (key,)) for key in keys[1 : 1 + int(args[3])]]
    held = all(name.live and name.holder == args[0] and name.fence <= int(args[1]) for name in names)
    return _write(store, keys[0], held, args)


def under_rw_lock(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    run = Run(store)
    holder = run.read(keys[1:3], "0").holder(args[0])
    has = holder is not None and holder.fence == args[1] and holder.weight >= int(args[4])
    return _write(store, keys[0], has and (store.zscore(keys[2], args[0]) or 0) > run.now, args)


def _write(store: Store, key: str, held: bool, args: Sequence[str]) -> TwinReply:
    fence, number = args[1:3]
    last = (store.get(key) or "0 0 ").split(" ", 2)
    if len(last) != 3 or not (last[0] + last[1]).isdecimal():
        raise WrongType
    if last[:2] == [fence, number]:
        return [0]
    if not held:
        return [1]
    if last[0] == fence and int(last[1]) > int(number):
        return [2]
    store.set(key, f"{fence} {number} ", HOUR_MS)
    return [0]
