"""The queue family's scripts as Python over a `Store`: the executable specification of the Lua beside it.

What the Lua files share, their preludes, is `Name` and, for scripts about many names, `batch`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base import TwinReply
from ..store import Store
from .batch import Part, batch, split
from .name import FIRST, STATE, Run
from .records import Holder, Waiter


def acquire(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    parts = split(Run(store, args[:2]), keys, args[2:], 3, 11)
    return batch(parts, (arrive, decide, complete), alone=len(parts) == 1)


def enter(part: Part) -> None:
    owner, ttl, _, _, weight, mints, floor, _, queue_number, liveness, metadata = part.args
    alive, provisional = part.run.now + int(liveness), min(int(ttl), int(liveness))
    part.name().join(
        owner, Waiter(int(queue_number), alive, provisional, int(weight), mints, floor, int(ttl), metadata)
    )


def arrive(part: Part) -> TwinReply:
    """Who waits shows that it lives; who was forgotten is back at its old place."""
    owner, queue_number, name = part.args[0], int(part.args[8]), part.name(part.args[7])
    name.prune()
    waits = name.waiter(owner) is not None
    if not waits and part.run.store.exists(part.keys[2]):
        return ["finished"]
    if waits or (queue_number > 0 and name.holder(owner) is None):
        enter(part)
    return None


def decide(part: Part) -> TwinReply:
    """What those who hold have, and those who can hold get; the others wait, if they want to."""
    owner, ttl, depth, fence, weight, mints, floor, _, queue_number, _, metadata = part.args
    name, run = part.name(), part.run
    state, held = name.state, name.holder(owner)
    if held is not None:
        if fence not in ("0", held.fence):
            return ["lost", "taken_over"]
        if int(depth) > held.depth:
            alone = state.holders == 1 and held.weight >= state.capacity
            more = max(held.weight, int(weight)) if alone else held.weight
            state.used += more - held.weight
            name.records[owner] = held._replace(depth=int(depth), weight=more)
        return ["granted", held.fence, name.extend(owner, int(ttl)), held.abandoned, state.capacity]
    if int(depth) > 1:
        return ["lost", name.gone(int(weight))]
    if int(weight) > state.capacity:
        return ["impossible", state.capacity]
    if state.waiters == 0 and state.shut <= run.now and state.used + int(weight) <= state.capacity:
        return [*name.grant(owner, int(ttl), int(weight), mints, floor, metadata)]
    if queue_number != "-1" and name.waiter(owner) is None:
        enter(part)
    return None


def complete(part: Part) -> TwinReply:
    """How long it will be, for those who neither got nor have it."""
    name, store, now = part.name(), part.run.store, part.run.now
    state = name.state
    if part.args[8] == "-1":
        held = store.zrangebyscore(name.order, 0, FIRST - 1)
        left = (store.zscore(name.order, held[-1]) or now) - now if held else 0
        return ["refused", max(left, 0), state.fence, state.metadata]
    waits = name.waiter(part.args[0])
    assert waits is not None
    pause = 0
    if not name.cut:
        first = store.zrange(name.order, 0, 0) if state.holders else []
        pause = (store.zscore(name.order, first[0]) or now) - now if first else -1
    name.cut = False
    rank = store.zcount(name.order, FIRST, waits.queue_number)
    return ["queued", state.serial, waits.queue_number, rank, state.fence, state.metadata, pause]


def release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    before, after, owner, left, weight, mints, ending, clean_ttl, dead_ttl, capacity = args
    name = Run(store, (before, after)).open(keys, capacity)
    held = name.holder(owner)
    answer: TwinReply
    if held is None:
        if name.waiter(owner) is not None:
            name.leave(owner)
        answer = ["missing", name.gone(int(weight))]
    elif int(left) > 0:
        answer = ["kept", name.extend(owner, 0)]
        still = min(held.weight, int(weight))
        name.state.used += still - held.weight
        still_mints = mints if held.mints == "1" else "0"
        name.records[owner] = Holder(min(held.depth, int(left)), still, still_mints, held.fence, held.abandoned)
    else:
        dirty = ending == "dirty" or (ending == "undone" and held.abandoned == "1")
        name.drop(owner, held.weight, held.mints == "1" and dirty)
        answer = ["released", held.fence]
    name.settle()
    name.close(int(clean_ttl))
    if left == "0" and dead_ttl != "0":
        store.set(keys[2], "1", int(dead_ttl))
    return answer


def transfer(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    before, after, owner, fence, successor, ttl, floor, metadata, dead_ttl, capacity = args
    if store.exists(keys[3]):
        return ["finished"]
    name = Run(store, (before, after)).open(keys, capacity)
    name.prune()
    again, held = name.holder(successor), name.holder(owner)
    moves = held is not None and held.fence == fence and owner != successor
    answer: TwinReply = ["missing", name.gone(1)]
    if held is not None and moves:
        name.drop(owner, held.weight, False)
    if again is not None:
        answer = ["granted", again.fence, name.extend(successor, 0), again.abandoned, name.state.capacity, again.weight]
    elif held is not None and moves:
        if name.waiter(successor) is not None:
            name.leave(successor)
        answer = [*name.grant(successor, int(ttl), held.weight, held.mints, floor, metadata), held.weight]
    name.settle()
    name.close()
    if dead_ttl != "0":
        store.set(keys[2], "1", int(dead_ttl))
    return answer


def renew(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    return batch(split(Run(store, args[:2]), keys, args[2:], 2, 5), (look, extend))


def look(part: Part) -> TwinReply:
    part.name(part.args[3])
    return None


def extend(part: Part) -> TwinReply:
    owner, fence, ttl, _, weight = part.args
    name = part.name()
    held = name.holder(owner)
    if held is None:
        return name.gone(int(weight))
    return name.extend(owner, int(ttl)) if held.fence == fence else "taken_over"


def force_release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    before, after, capacity = args
    run = Run(store, (before, after))
    name = run.open(keys, capacity)
    name.prune()
    ended = 0
    for owner in store.zrangebyscore(name.order, run.now + 1, FIRST - 1, limit=run.room):
        held = name.holder(owner)
        if held is not None:
            name.drop(owner, held.weight, held.mints == "1")
            name.tell(owner, f"revoked {owner} {held.fence}")
            ended += 1
    left = name.state.holders
    name.state.shut = run.now + 1000 if left else 0
    name.settle()
    name.close()
    return [ended, left]


def set_capacity(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    name = Run(store, args[:2]).open(keys, args[2])
    before = name.state.capacity
    name.state.capacity, name.state.resized = int(args[2]), "1"
    name.settle()
    name.close()
    return before


def info(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    capacity, waiting, kept = args
    run = Run(store)
    name = run.look(keys, capacity)
    state = name.state
    if kept != "0":
        lasting = max(int(kept), store.pttl(name.key))
        if not name.known:
            store.hset(name.key, {STATE: name.before})
        store.pexpire(name.key, lasting)
    expired = store.zcount(name.order, 0, run.now)
    over = store.zrangebyscore(name.order, 0, run.now, limit=run.room)
    weights = [held.weight for owner in over if (held := name.holder(owner)) is not None]
    used = state.used - (expired - len(over)) - sum(weights)
    waits = name.waiter(waiting)
    rank = 0 if waits is None else store.zcount(name.order, FIRST, waits.queue_number)
    answer: list[TwinReply] = [state.holders - expired, used, state.capacity, state.fence, state.metadata]
    answer += [state.waiters, rank]
    live = store.zrangebyscore(name.order, run.now + 1, FIRST - 1)
    held = name.holder(live[-1]) if live else None
    if held is not None:
        pttl = (store.zscore(name.order, live[-1]) or run.now) - run.now
        answer += [live[-1], held.depth, pttl, held.fence]
    return answer
