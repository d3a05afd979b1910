"""The lock's scripts as Python over a `Store`: the executable specification of the Lua beside it."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import MAX_FENCE, TwinReply
from ..keys import DIRTY_MS, GRACE_MS
from ..store import Store, WrongType


def acquire(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    lock, state_key, dead, *mark = keys
    owner, ttl, floor, metadata, depth, fence, mark_ttl = filled(args, 4, "1", "0", "0")
    if store.exists(dead):
        return ["finished"]
    pttl = store.pttl(lock)
    state = store.hgetall(state_key)
    count = store.hget(lock, owner)
    if count is None and pttl != -2:
        if int(depth) > 1:
            return ["lost", "taken_over"]
        for polled in mark:
            store.set(polled, "1", int(mark_ttl))
        return ["refused", pttl, state.get("fence", "0"), state.get("metadata", "")]
    if count is None and int(depth) > 1:
        return ["lost", "deleted"]
    if count is not None and "fence" in state:
        if state.get("owner") != owner or fence not in ("0", state["fence"]):
            return ["lost", "taken_over"]
    else:
        abandoned = "1" if count is None and state.get("clean") == "0" else "0"
        if fence == "0":
            fence = mint(store, state.get("fence", "0"), floor)
        state = grant_state(fence, owner, abandoned, metadata) | {"before": state.get("fence", "0")}
        store.hset(state_key, state)
        store.pexpire(state_key, max(DIRTY_MS, int(ttl) + GRACE_MS))
    if int(depth) > int(count or 0):
        store.hset(lock, {owner: depth})
    if int(ttl) > pttl:
        store.pexpire(lock, int(ttl))
        pttl = int(ttl)
    return f"granted {state['fence']} {pttl} {state['abandoned']}"


def release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    lock, state_key, dead = keys
    owner, clean_ttl, channel, ending, left, dead_ttl = filled(args, 3, "clean", "0", "0")
    count = store.hget(lock, owner) if left != "0" else None
    if count is not None:
        store.hset(lock, {owner: str(min(int(count), int(left)))})
        return ["kept", store.pttl(lock)]
    state = store.hgetall(state_key)
    fence = state.get("fence", "0")
    answer: TwinReply = f"released {fence}"
    if store.hdel(lock, owner):
        if state.get("owner") == owner and (
            ending == "clean" or (ending == "undone" and state.get("abandoned") == "0")
        ):
            store.hset(state_key, {"clean": "1"})
            store.pexpire(state_key, int(clean_ttl))
        store.publish(channel, f"{owner} {fence}")
    elif left != "0" or state.get("owner") != owner or state.get("clean") != "1":
        answer = missing(store, lock)
    if left == "0" and dead_ttl != "0":
        store.set(dead, "1", int(dead_ttl))
    return answer


def transfer(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    lock, state_key, dead, next_dead, mark_key = keys
    owner, fence, successor, ttl, floor, metadata, state_ttl, dead_ttl, channel = args
    if store.exists(next_dead):
        return ["finished"]
    others, mark = store.numsub(channel), store.pttl(mark_key)
    state = store.hgetall(state_key)
    if state.get("owner") == successor and store.hget(lock, successor) is not None:
        return ["granted", state["fence"], store.pttl(lock), state["abandoned"], others, mark]
    answer: TwinReply
    if store.hget(lock, owner) is not None and state.get("fence", fence) == fence:
        minted = mint(store, fence, floor)
        store.delete(lock)
        store.hset(state_key, grant_state(minted, successor, "0", metadata))
        store.pexpire(state_key, int(state_ttl))
        store.hset(lock, {successor: "1"})
        store.pexpire(lock, int(ttl))
        answer = ["granted", minted, int(ttl), "0", others, mark]
    else:
        answer = missing(store, lock)
    if dead_ttl != "0":
        store.set(dead, "1", int(dead_ttl))
    return answer


def renew(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    answers: list[TwinReply] = []
    for i in range(len(keys) // 2):
        owner, fence, ttl = args[1 + 3 * i : 4 + 3 * i]
        answers.append(renew_one(store, keys[2 * i], keys[2 * i + 1], owner, fence, int(ttl), int(args[0])))
    return answers


def renew_one(store: Store, lock: str, state: str, owner: str, fence: str, ttl: int, state_ttl: int) -> int | str:
    try:
        if store.hget(lock, owner) is None:
            return "taken_over" if store.exists(lock) else "deleted"
        known = store.hget(state, "fence")
    except WrongType as error:
        return f"error {error}"
    if known is not None and known != fence:
        return "taken_over"
    pttl = store.pttl(lock)
    if 0 < ttl > pttl:
        store.pexpire(lock, ttl)
        pttl = ttl
    if known is None:
        store.hset(state, {"fence": fence, "owner": owner, "clean": "0", "abandoned": "0"})
    store.pexpire(state, max(state_ttl, pttl + 60_000))
    return pttl


def force_release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    lock, state_key = keys
    wanted, channel, before, after = args
    owners = list(store.hgetall(lock))
    fence = store.hget(state_key, "fence") or "0"
    if not owners or wanted not in ("0", fence):
        return 0
    store.delete(lock)
    for owner in owners:
        store.publish(f"{before}{owner.partition(':')[0]}{after}", f"revoked {owner} {fence}")
    store.publish(channel, f"force {fence}")
    return 1


def info(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    held = store.hgetall(keys[0])
    if not held:
        return []
    owner, depth = next(iter(held.items()))
    state = store.hgetall(keys[1])
    return [owner, int(depth), store.pttl(keys[0]), state.get("fence", "0"), state.get("metadata", "")]


def confirm(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    lock, state_key = keys
    owner, minted, agreed = args
    state = store.hgetall(state_key)
    if state.get("owner") != owner or store.hget(lock, owner) is None:
        return 0
    if state.get("fence") == minted and int(agreed) >= int(state.get("before", minted)):
        store.hset(state_key, {"fence": agreed})
    return int(store.hget(state_key, "fence") == agreed)


def filled(args: Sequence[str], least: int, *defaults: str) -> list[str]:
    """ARGV with what the request left out at its end."""
    return [*args, *defaults[len(args) - least :]]


def mint(store: Store, stored: str, floor: str) -> str:
    """A fence above every earlier one on the name, and above all this manager has heard of."""
    return str(max(int(stored) + 1, believable(floor) + 1, store.wall_us()))


def believable(floor: str) -> int:
    """The floor; 0 if it is more than any fence can be."""
    return int(floor) if int(floor) < MAX_FENCE else 0


def grant_state(fence: str, owner: str, abandoned: str, metadata: str) -> dict[str, str]:
    return {"fence": fence, "owner": owner, "clean": "0", "abandoned": abandoned, "metadata": metadata}


def missing(store: Store, lock: str) -> TwinReply:
    return ["missing", "taken_over" if store.exists(lock) else "deleted"]
