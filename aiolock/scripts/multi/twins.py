"""The multi lock's scripts as Python over a `Store`: the executable specification of the Lua beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..base import TwinReply
from ..lock import twins as lock
from ..store import Store, WrongType


@dataclass(slots=True)
class Part:
    """One of the names: what the owner has of it, and its last grant."""

    lock: str
    state_key: str
    pttl: int
    count: int | None
    state: dict[str, str]

    @property
    def gone(self) -> str:
        return "deleted" if self.pttl == -2 else "taken_over"


def read(store: Store, keys: Sequence[str], at: int, owner: str) -> Part:
    count = store.hget(keys[at], owner)
    return Part(
        keys[at],
        keys[at + 1],
        store.pttl(keys[at]),
        None if count is None else int(count),
        store.hgetall(keys[at + 1]),
    )


def worse(one: str | None, other: str) -> str:
    return one if one == "taken_over" else other


def acquire(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, ttl, depth, fence, floor, metadata, state_ttl, mark_ttl, *names = args
    if store.exists(keys[0]):
        return ["finished"]
    parts = [read(store, keys, at, owner) for at in range(1, len(keys), 3)]
    highest = max(lock.believable(floor), *(int(part.state.get("fence", "0")) for part in parts))
    mine = [part for part in parts if part.count is not None]
    gone: str | None = None
    for part in parts:
        if part.count is None:
            gone = worse(gone, part.gone)
        elif "fence" in part.state:
            if part.state.get("owner") != owner or fence not in ("0", part.state["fence"]):
                gone = "taken_over"
            fence = part.state["fence"]
    if gone and (mine or int(depth) > 1):
        return ["lost", gone]
    held = [each for each in zip(parts, names, keys[3::3], strict=True) if each[0].pttl != -2]
    if held and not mine:
        first, name, mark = held[0]
        waits = [part.pttl for part, *_ in held]
        if mark_ttl != "0":
            store.set(mark, "1", int(mark_ttl))
        return ["refused", -1 if -1 in waits else max(waits), str(highest), first.state.get("metadata", ""), name]
    if fence == "0":
        fence = str(max(highest + 1, store.wall_us()))
    for part in parts:
        if part.count is None or "fence" not in part.state:
            abandoned = "1" if part.count is None and part.state.get("clean") == "0" else "0"
            part.state = lock.grant_state(fence, owner, abandoned, metadata)
            store.hset(part.state_key, part.state)
            store.pexpire(part.state_key, int(state_ttl))
    for part in parts:
        if int(depth) > (part.count or 0):
            store.hset(part.lock, {owner: depth})
        if int(ttl) > part.pttl:
            store.pexpire(part.lock, int(ttl))
    left = min(max(int(ttl), part.pttl) for part in parts)
    return f"granted {fence} {left} {int(any(part.state['abandoned'] == '1' for part in parts))}"


def release(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    owner, left, ending, clean_ttl, dead_ttl, *channels = args
    mine: list[tuple[Part, str]] = []
    fence, gone, failed = "0", None, None
    for at, channel in zip(range(1, len(keys), 2), channels, strict=True):
        try:
            part = read(store, keys, at, owner)
        except WrongType as error:
            failed = error
            continue
        if part.state.get("owner") == owner:
            fence = part.state.get("fence", fence)
        if part.count is not None:
            mine.append((part, channel))
        elif left != "0" or part.state.get("owner") != owner or part.state.get("clean") != "1":
            gone = worse(gone, part.gone)
    if left == "0":
        for part, _ in mine:
            store.delete(part.lock)
        others = max((tell(store, part, owner, ending, clean_ttl, channel) for part, channel in mine), default=0)
        if dead_ttl != "0":
            store.set(keys[0], "1", int(dead_ttl))
    else:
        for part, _ in mine:
            store.hset(part.lock, {owner: str(min(part.count or 0, int(left)))})
    if failed is not None:
        raise failed
    if gone is not None:
        return ["missing", gone]
    return ["released", fence, others] if left == "0" else ["kept", min(part.pttl for part, _ in mine)]


def tell(store: Store, part: Part, owner: str, ending: str, clean_ttl: str, channel: str) -> int:
    """A name was freed: how many managers listen for it."""
    kept_clean = ending == "clean" or (ending == "undone" and part.state.get("abandoned") == "0")
    if part.state.get("owner") == owner and kept_clean:
        store.hset(part.state_key, {"clean": "1"})
        store.pexpire(part.state_key, int(clean_ttl))
    return store.publish(channel, f"{owner} {part.state.get('fence', '0')}")


def renew(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    answers: list[TwinReply] = []
    at = 0
    for hold in range(1, len(args), 4):
        owner, fence, ttl, names = args[hold : hold + 4]
        pttl, gone, failed = [], None, None
        for _ in range(int(names)):
            try:
                answer = extend(store, keys, at, owner, fence, int(ttl), int(args[0]))
            except WrongType as error:
                failed = f"error {error}"
            else:
                if isinstance(answer, str):
                    gone = worse(gone, answer)
                else:
                    pttl.append(answer)
            at += 2
        answers.append(gone or failed or min(pttl))
    return answers


def extend(store: Store, keys: Sequence[str], at: int, owner: str, fence: str, ttl: int, state_ttl: int) -> int | str:
    """One name of a hold: what is left of it, or why it is lost."""
    part = read(store, keys, at, owner)
    if part.count is None:
        return part.gone
    known = part.state.get("fence")
    if known not in (None, fence):
        return "taken_over"
    if ttl > part.pttl and ttl > 0:
        store.pexpire(part.lock, ttl)
        part.pttl = ttl
    if known is None:
        store.hset(part.state_key, {"fence": fence, "owner": owner, "clean": "0", "abandoned": "0"})
    store.pexpire(part.state_key, max(state_ttl, part.pttl + 60_000))
    return part.pttl


def info(store: Store, keys: Sequence[str], args: Sequence[str]) -> TwinReply:
    return [lock.info(store, keys[at : at + 2], args) for at in range(0, len(keys), 2)]
