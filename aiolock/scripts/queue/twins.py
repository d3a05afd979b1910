"""The queue family's scripts in Python over a `Store`: the executable specification of the Lua beside it.

What the Lua files share, their preludes, is in `State` and, for scripts about many names, in `batch`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base import TwinReply
from ..store import Store
from .batch import Part, batch, split
from .records import Holder, Waiter
from .state import FIRST, Run


def acquire(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    parts = split(Run(store, args[0]), keys, args[1:], 3, 11)
    return batch(parts, (arrive, decide, complete), alone=len(parts) == 1)


def enter(part: Part) -> None:
    owner, ttl, _, _, weight, mints, floor, _, queue_number, liveness, metadata = part.args
    alive, provisional = part.run.now + int(liveness), min(int(ttl), int(liveness))
    part.state().join(
        owner, Waiter(int(queue_number), alive, provisional, int(weight), mints, floor, int(ttl), metadata)
    )


def arrive(part: Part) -> TwinReply:
    """Record that the waiters live; queue those that were forgotten again under their old number."""
    owner, queue_number, state = part.args[0], int(part.args[8]), part.state(part.args[7])
    state.prune()
    state.fit(part.args[7])
    waits = state.waiter(owner) is not None
    if not waits and part.run.store.exists(part.keys[2]):
        return ["finished"]
    if waits or (queue_number > 0 and state.holder(owner) is None):
        enter(part)
    return None


def decide(part: Part) -> TwinReply:
    """Answer the holders, and those that can hold now; the others wait, if they want to."""
    owner, ttl, depth, fence, weight, mints, floor, capacity, queue_number, _, metadata = part.args
    state, run = part.state(), part.run
    summary, held = state.summary, state.holder(owner)
    if held is not None:
        if fence not in ("0", held.fence):
            return ["lost", "taken_over"]
        if int(depth) > max(1, held.depth):
            alone = summary.holders == 1 and held.weight >= summary.capacity
            more = max(held.weight, int(weight)) if alone else held.weight
            summary.used += more - held.weight
            state.records[owner] = held._replace(depth=int(depth), weight=more)
        return ["granted", held.fence, state.extend(owner, int(ttl)), held.abandoned, summary.capacity]
    if int(depth) > 1:
        return ["lost", state.gone(int(weight))]
    state.fit(capacity)
    if int(weight) > summary.capacity:
        return ["impossible", summary.capacity]
    if summary.waiters == 0 and summary.shut <= run.now and summary.used + int(weight) <= summary.capacity:
        return [*state.grant(owner, 1, int(ttl), int(weight), mints, floor, metadata)]
    if queue_number != "-1" and state.waiter(owner) is None:
        enter(part)
    return None


def complete(part: Part) -> TwinReply:
    """Say how long it will be, to those that neither got nor have it."""
    state, store, now = part.state(), part.run.store, part.run.now
    summary = state.summary
    if part.args[8] == "-1":
        held = store.zrangebyscore(state.order, 0, FIRST - 1)
        left = (store.zscore(state.order, held[-1]) or now) - now if held else 0
        return ["refused", max(left, 0), summary.fence, summary.metadata]
    waits = state.waiter(part.args[0])
    assert waits is not None
    pause = 0
    if not state.cut:
        first = store.zrange(state.order, 0, 0) if summary.holders else []
        pause = (store.zscore(state.order, first[0]) or now) - now if first else -1
    state.cut = False
    rank = store.zcount(state.order, FIRST, waits.queue_number)
    return ["queued", summary.serial, waits.queue_number, rank, summary.fence, summary.metadata, pause]


def release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    channel, owner, left, weight, mints, ending, clean_ttl, dead_ttl, capacity = args
    state = Run(store, channel).open(keys, capacity)
    held = state.holder(owner)
    answer: TwinReply
    if held is None or (ending == "declined" and held.depth):
        if state.waiter(owner) is not None:
            state.leave(owner)
        answer = ["missing", state.gone(int(weight))]
    elif int(left) > 0:
        answer = ["kept", state.extend(owner, 0)]
        still = min(held.weight, int(weight))
        state.summary.used += still - held.weight
        still_mints = mints if held.mints == "1" else "0"
        state.records[owner] = Holder(min(held.depth, int(left)), still, still_mints, held.fence, held.abandoned)
    else:
        dirty = ending == "dirty" or (ending != "clean" and held.abandoned == "1")
        state.drop(owner, held.weight, held.mints == "1" and dirty)
        answer = ["released", held.fence]
    state.settle()
    state.close(int(clean_ttl))
    if left == "0" and dead_ttl != "0":
        store.set(keys[2], "1", int(dead_ttl))
    return answer


def transfer(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    channel, owner, fence, successor, ttl, floor, metadata, dead_ttl, capacity = args
    if store.exists(keys[3]):
        return ["finished"]
    state = Run(store, channel).open(keys, capacity)
    state.prune()
    again, held = state.holder(successor), state.holder(owner)
    moves = held is not None and held.fence == fence and owner != successor
    answer: TwinReply = ["missing", state.gone(1)]
    if held is not None and moves:
        state.drop(owner, held.weight, False)
    if again is not None:
        answer = [
            "granted",
            again.fence,
            state.extend(successor, 0),
            again.abandoned,
            state.summary.capacity,
            again.weight,
        ]
    elif held is not None and moves:
        if state.waiter(successor) is not None:
            state.leave(successor)
        answer = [*state.grant(successor, 1, int(ttl), held.weight, held.mints, floor, metadata), held.weight]
    state.settle()
    state.close()
    if dead_ttl != "0":
        store.set(keys[2], "1", int(dead_ttl))
    return answer


def renew(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    return batch(split(Run(store, args[0]), keys, args[1:], 2, 5), (open_name, extend))


def open_name(part: Part) -> TwinReply:
    part.state(part.args[3])
    return None


def extend(part: Part) -> TwinReply:
    owner, fence, ttl, _, weight = part.args
    state = part.state()
    held = state.holder(owner)
    if held is None:
        return state.gone(int(weight))
    if held.fence != fence:
        return "taken_over"
    if not held.depth:
        state.records[owner] = held._replace(depth=1)
    return state.extend(owner, int(ttl))


def force_release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    channel, capacity = args
    run = Run(store, channel)
    state = run.open(keys, capacity)
    state.prune()
    ended = 0
    for owner in store.zrangebyscore(state.order, run.now + 1, FIRST - 1, limit=run.room):
        held = state.holder(owner)
        if held is not None:
            state.drop(owner, held.weight, held.mints == "1")
            state.tell(owner, f"revoked {owner} {held.fence}")
            ended += 1
    left = state.summary.holders
    state.summary.shut = run.now + 1000 if left else 0
    state.settle()
    state.close()
    return [ended, left]


def set_capacity(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    channel, capacity = args
    state = Run(store, channel).open(keys, capacity)
    before = state.summary.capacity
    state.summary.capacity, state.summary.resized = int(capacity), "1"
    state.settle()
    state.close()
    return before


def info(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    capacity, waiting = args
    run = Run(store)
    state = run.read(keys, capacity)
    summary = state.summary
    expired = store.zcount(state.order, 0, run.now)
    over = store.zrangebyscore(state.order, 0, run.now, limit=run.room)
    weights = [held.weight for owner in over if (held := state.holder(owner)) is not None]
    used = summary.used - (expired - len(over)) - sum(weights)
    waits = state.waiter(waiting)
    rank = 0 if waits is None else store.zcount(state.order, FIRST, waits.queue_number)
    summary.holders -= expired
    state.fit(capacity)
    answer: list[TwinReply] = [summary.holders, used, summary.capacity, summary.fence, summary.metadata]
    answer += [summary.waiters, rank]
    live = store.zrangebyscore(state.order, run.now + 1, FIRST - 1)
    held = state.holder(live[-1]) if live else None
    if held is not None:
        pttl = (store.zscore(state.order, live[-1]) or run.now) - run.now
        answer += [live[-1], max(1, held.depth), pttl, held.fence]
    return answer
