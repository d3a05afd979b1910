"""The lock's scripts in Python over a `Store`: the executable specification of the Lua beside it.

`Name` has what the Lua files share, their preludes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base import TwinReply
from ..keys import DIRTY_MS
from ..store import Store, WrongType
from .name import Name, kept, most


def acquire(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, ttl, floor, metadata, managers, *more = args
    channel, *waits = managers.split(" ")
    liveness, counted = (int(waits[0]), waits[1]) if waits else (0, "")
    number = int(waits[2]) if len(waits) > 2 else None
    name, finished = Name(store, keys), store.exists(keys[3])
    waiters = store.zcard(name.queue)
    mine = name.live and name.holder == owner
    stated = news = False
    if mine and not finished:
        name.own(int(ttl), metadata, floor)
    if not finished and not mine:
        free = not name.live
        if liveness and (waiters or not free):
            news = name.join(owner, liveness, counted, metadata, number)
            stated, liveness = True, -abs(liveness)
        if free:
            name.vacate()
            first = name.settle(channel, owner, floor) if waiters else None
            mine = first in (None, owner)
            if mine:
                name.grant(owner, 1, name.now + int(ttl), metadata, floor)
            if first == owner:
                store.zrem(name.queue, owner)
                if news and number is None and not more:
                    store.hdel(name.alive, owner.partition(":")[0])
    answer = name.granted if mine else name.queued(owner) if stated else ""
    for other, dead in zip(more, keys[4:], strict=True):
        entry, _, had = other.partition(" ")
        if not store.exists(dead) and entry != name.holder:
            name.join(entry, liveness, counted, metadata, int(had) if had else None)
            liveness = -abs(liveness)
    return "finished" if finished else answer or f"refused {name.pttl} {name.fence} {name.metadata}"


def transfer(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, fence, successor, ttl, floor, metadata, over, channel, liveness, counted, *dead_ttl = args
    if store.exists(keys[4]):
        return "finished"
    name = Name(store, keys)
    answer = ""
    if name.holder == owner and name.fence == int(fence) and (over != "2" or name.live):
        head = next(iter(store.zrange(name.queue, 0, 0)), "")
        ends = bool(head) and (over == "1" or (over == "0" and (":f" in head or ":+" in head)))
        name.vacate("0" if name.depth else name.dirty)
        first = name.settle(channel, successor, floor) if ends else None
        if first in (None, "", successor):
            name.grant(successor, 1, name.now + int(ttl), metadata, floor)
            if first == successor or ":f" in successor:
                store.zrem(name.queue, successor)
        else:
            name.join(successor, int(liveness), counted, metadata)
            answer = f"passed {store.zscore(name.queue, successor)} {name.pttl}"
    elif name.live and name.holder == successor:
        name.own(int(ttl), metadata, floor)
    else:
        number = store.zscore(name.queue, successor)
        answer = f"missing {name.gone}" if number is None else f"passed {number} {name.pttl}"
    for ms in dead_ttl:
        store.set(keys[3], "1", int(ms))
    return answer or name.granted


def release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, clean_ttl, channel, ending, left, dead_ttl, told = filled(args, 3, "clean", "0", "0", "")
    name = Name(store, keys)
    if name.holder != owner or (ending == "declined" and name.depth):
        if left == "0":
            store.zrem(name.queue, owner)
        answer = f"missing {name.gone}"
    elif left != "0":
        name.depth = min(name.depth, int(left))
        name.write()
        answer = f"kept {name.pttl}"
    else:
        fence = name.fence
        name.vacate({"clean": "0", "dirty": "1"}.get(ending, name.dirty))
        if not name.settle(channel, None, "0"):
            name.write(int(clean_ttl) if name.dirty == "0" else max(DIRTY_MS, int(clean_ttl)))
        if told:
            store.publish(told, f"{owner} {fence}")
        answer = f"released {fence}"
    if left == "0" and dead_ttl != "0":
        store.set(keys[3], "1", int(dead_ttl))
    return answer


def nest(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, fence, ttl, depth = args
    name = Name(store, keys)
    if name.holder != owner or name.fence != int(fence):
        return f"missing {name.gone}"
    name.depth, name.expires = max(name.depth, int(depth)), max(name.expires, name.now + int(ttl))
    name.write()
    return f"kept {name.pttl}"


def renew(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    return [judged(renew_one, store, keys[i : i + 1], args[3 * i : 3 * i + 3]) for i in range(len(keys))]


def renew_one(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, fence, ttl = args
    name = Name(store, keys)
    if name.holder != owner or name.fence != int(fence):
        return name.gone
    if ttl != "0":
        name.expires = max(name.expires, name.now + int(ttl))
        name.write()
    return name.pttl


def refresh(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    parts = [(keys[3 * i : 3 * i + 3], args[4 * i + 1 : 4 * i + 5]) for i in range(len(keys) // 3)]
    return [judged(refresh_one, store, keys, (args[0], *facts)) for keys, facts in parts]


def refresh_one(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    channel, owner, liveness, counted, process = args
    name = Name(store, keys)
    if name.live and name.holder == owner:
        return name.granted
    if store.zscore(name.queue, owner) is None:
        return "gone"
    ms = kept(int(liveness))
    name.keep(name.queue, ms)
    name.lives(owner, int(liveness), counted, process)
    name.keep(name.alive, ms)
    name.sweep()
    if not name.live:
        name.vacate()
        if name.settle(channel, owner, "0") == owner:
            lasting = min(int(liveness), most(owner, int(liveness)))
            name.grant(owner, 0, name.now + lasting, process, "0", store.zscore(name.queue, owner))
            store.zrem(name.queue, owner)
            return name.granted
    return name.queued(owner)


def force_release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    wanted, channel, *told = args
    name = Name(store, keys)
    if not name.live or int(wanted) not in (0, name.fence):
        return 0
    holder, fence = name.holder, name.fence
    name.vacate("1")
    if not name.settle(channel, None, "0"):
        name.write()
    store.publish(channel + holder.partition(":")[0], f"revoked {holder} {fence}")
    for each in told:
        store.publish(each, f"force {fence}")
    return 1


def request_release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    wanted, channel = args
    name = Name(store, keys)
    if not name.live:
        return ""
    if wanted in ("", name.holder):
        store.publish(channel + name.holder.partition(":")[0], f"wanted {name.holder}")
    return f"{name.holder} {name.fence}"


def info(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    name, (waiting,) = Name(store, keys), args
    waiters = store.zcard(name.queue)
    rank = store.zrank(name.queue, waiting) + 1 if store.zscore(name.queue, waiting) is not None else 0
    if name.live:
        facts: list[TwinReply] = [name.holder, max(1, name.depth), name.pttl, str(name.fence), name.metadata]
        return [*facts, waiters, rank]
    return ["", 0, 0, str(name.fence), "", waiters, rank] if waiters else []


def confirm(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, minted, agreed = args
    name = Name(store, keys)
    if not name.live or name.holder != owner:
        return 0
    if name.fence == int(minted) and int(agreed) >= name.before:
        name.fence = int(agreed)
        name.write()
    return int(name.fence == int(agreed))


def depart(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    for key in keys:
        store.hdel(key, args[0])
    return 1


def judged(
    script: Callable[[Store, Sequence[str], Sequence[str]], TwinReply],
    store: Store,
    keys: Sequence[str],
    args: Sequence[str],
) -> TwinReply:
    """Return one answer of many, or why there is none."""
    try:
        return script(store, keys, args)
    except WrongType as error:
        return f"error {error}"


def filled(args: Sequence[str], least: int, *defaults: str) -> list[str]:
    """Return ARGV with the defaults that the request left out at its end."""
    return [*args, *defaults[len(args) - least :]]
