"""The queue family's scripts as Python over a `Store`: the executable specification of the Lua beside it.

What the Lua files share, their preludes, is `Name`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..base import TwinReply
from ..store import Store
from .name import Entry, Name, Record, each


def acquire(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    one = partial(acquire_one, store, store.wall_us(), args[:2])
    if len(keys) == 6:
        return [one(keys, args[2:])]
    return each(one, keys, args[2:], (6, 11))


def acquire_one(
    store: Store, now_us: int, channel: Sequence[str], keys: Sequence[str], args: Sequence[str]
) -> TwinReply:
    owner, ttl, depth, fence, weight, mints, floor, capacity, ticket, liveness, metadata = args
    if store.exists(keys[5]):
        return ["finished"]
    name = Name(store, keys[:5], capacity, now_us, channel)
    entry = Entry(0, min(int(ttl), int(liveness)), int(weight), mints, floor, int(ttl), metadata)
    place = None if name.head is None else store.zscore(name.queue, owner)
    if place is None and int(ticket) > 0 and name.read(owner).depth == 0:
        place = int(ticket)
    if place is not None:
        name.join(owner, place, int(liveness), entry)
    name.settle(owner)
    held = name.read(owner)
    if held.depth > 0:
        if fence not in ("0", held.fence):
            return ["lost", "taken_over"]
        if int(depth) > held.depth:
            name.write(owner, held._replace(depth=int(depth)))
        return ["granted", held.fence, name.extend(owner, int(ttl), held.fence), held.abandoned, name.capacity]
    if int(depth) > 1:
        return ["lost", name.gone(int(weight))]
    if int(weight) > name.capacity:
        return ["impossible", name.capacity]
    if name.head is None and name.used + int(weight) <= name.capacity:
        return [*name.grant(owner, int(ttl), int(weight), mints, floor, metadata)]
    if ticket == "-1":
        return ["refused", name.ends(-1), str(name.fence), name.metadata]
    if place is None:
        name.join(owner, int(ticket), int(liveness), entry)
    rank = (store.zrank(name.queue, owner) or 0) + 1
    return [
        "queued",
        str(name.serial),
        str(store.zscore(name.queue, owner)),
        rank,
        str(name.fence),
        name.metadata,
        name.ends(0),
    ]


def release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    before, after, owner, left, weight, mints, ending, clean_ttl, dead_ttl, capacity = args
    name = Name(store, keys[:5], capacity, store.wall_us(), (before, after))
    name.leave(owner)
    held = name.read(owner)
    answer: TwinReply
    if held.depth == 0:
        answer = ["missing", name.gone(int(weight))]
    elif int(left) > 0:
        answer = ["kept", name.extend(owner, 0, held.fence)]
        still = min(held.weight, int(weight))
        name.used += still - held.weight
        still_mints = mints if held.mints == "1" else "0"
        name.write(owner, Record(min(held.depth, int(left)), still, still_mints, held.fence, held.abandoned))
    else:
        dirty = ending == "dirty" or (ending == "undone" and held.abandoned == "1")
        name.drop(owner, held.weight, held.mints == "1" and dirty)
        answer = ["released", held.fence]
    if left == "0" and dead_ttl != "0":
        store.set(keys[5], "1", int(dead_ttl))
    name.settle()
    if name.used <= 0 and name.dirty == "0" and not name.resized:
        store.pexpire(name.state, int(clean_ttl))
    return answer


def transfer(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    before, after, owner, fence, successor, ttl, floor, metadata, dead_ttl, capacity = args
    if store.exists(keys[6]):
        return ["finished"]
    name = Name(store, keys[:5], capacity, store.wall_us(), (before, after))
    name.settle()
    again, held = name.read(successor), name.read(owner)
    moves = held.depth > 0 and held.fence == fence and owner != successor
    answer: TwinReply = ["missing", name.gone(1)]
    if moves:
        name.drop(owner, held.weight, False)
    if again.depth > 0:
        pttl = name.extend(successor, 0, again.fence)
        answer = ["granted", again.fence, pttl, again.abandoned, name.capacity, again.weight]
    elif moves:
        name.leave(successor)
        answer = [*name.grant(successor, int(ttl), held.weight, held.mints, floor, metadata), held.weight]
    name.settle()
    if dead_ttl != "0":
        store.set(keys[5], "1", int(dead_ttl))
    return answer


def renew(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    return each(partial(renew_one, store, store.wall_us(), args[:2]), keys, args[2:], (5, 5))


def renew_one(store: Store, now_us: int, channel: Sequence[str], keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, fence, ttl, capacity, weight = args
    name = Name(store, keys, capacity, now_us, channel)
    name.settle()
    held = name.read(owner)
    if held.depth == 0:
        return name.gone(int(weight))
    if held.fence != fence:
        return "taken_over"
    return name.extend(owner, int(ttl), fence)


def force_release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    before, after, wanted, capacity = args
    name = Name(store, keys, capacity, store.wall_us(), (before, after))
    name.prune()
    ended = 0
    for owner in store.hgetall(name.holders):
        if owner == "used":
            continue
        held = name.read(owner)
        if wanted in ("0", held.fence):
            name.drop(owner, held.weight, held.mints == "1")
            ended += 1
            name.tell(owner, f"revoked {owner} {held.fence}")
    name.settle()
    return ended


def set_capacity(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    name = Name(store, keys, args[2], store.wall_us(), args[:2])
    before = name.capacity
    store.hset(name.state, {"capacity": args[2], "resized": "1"})
    name.capacity = int(args[2])
    name.keep(name.state, 0)
    name.settle()
    return before


def info(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    capacity, waiting = args
    name = Name(store, keys, capacity, store.wall_us())
    over = store.zrangebyscore(name.expiry, 0, name.now)
    used = name.used - sum(name.read(owner).weight for owner in over)
    live = [owner for owner in store.zrange(name.expiry, 0, -1) if owner not in over]
    rank = store.zrank(name.queue, waiting)
    place = 0 if rank is None else rank + 1
    answer: list[TwinReply] = [len(live), used, name.capacity, str(name.fence), name.metadata]
    answer += [store.zcard(name.queue), place]
    held = name.read(live[-1]) if live else None
    if held is not None and held.depth > 0:
        pttl = (store.zscore(name.expiry, live[-1]) or name.now) - name.now
        answer += [live[-1], held.depth, pttl, held.fence]
    return answer
