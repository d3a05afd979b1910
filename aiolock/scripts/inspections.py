"""The kinds of names, and how anyone can look at each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from . import condition, latch, once
from .foreign import BEFORE, TEXT, VERSION, damaged, used_by
from .keys import Keys
from .lock.inspection import LockInspection
from .queue.inspection import QueueInspection
from .view import Inspection, Look, NameView, text_of

LOOKS: dict[str, Callable[[Keys, str, bool, int], Inspection]] = {
    "lock": lambda keys, name, deep, now_ms: LockInspection(keys, name, deep),
    "rw": lambda keys, name, deep, now_ms: QueueInspection(keys, "rw", name, deep, now_ms),
    "semaphore": lambda keys, name, deep, now_ms: QueueInspection(keys, "semaphore", name, deep, now_ms),
    "latch": lambda keys, name, deep, now_ms: latch.look(keys, name),
    "condition": lambda keys, name, deep, now_ms: condition.look(keys, name),
    "once": lambda keys, name, deep, now_ms: once.look(keys, name),
}

INSPECTED_KINDS = tuple(LOOKS)


def inspection_of(keys: Keys, kind: str, name: str, now_ms: int, deep: bool = False) -> Look:
    """Return how to look at a name. Replies may be errors, if they say that a key has another type.

    Args:
        keys: names the keys.
        kind: one of `INSPECTED_KINDS`.
        name: the name.
        now_ms: about the server's time.
        deep: also list holders and waiters.
    """
    look, names = LOOKS[kind](keys, name, deep, now_ms), keys.of(kind, name)
    key = names.state if kind in ("rw", "semaphore") else names.lock
    asked = [("HGET", key, "version"), ("EXISTS", key), ("MGET", key)]  # MGET refuses no type: a lock was text once
    return Look([*asked, *look.commands], partial(_decode, look, kind, name, key))


def _decode(
    look: Inspection, kind: str, name: str, key: str, replies: Sequence[object], now_us: int
) -> NameView | None:
    version, exists, text, *rest = replies
    theirs = text_of(version) or (BEFORE if exists else VERSION)
    if kind == "lock" and theirs == BEFORE:
        match text:
            case [bytes() as state] if TEXT.match(text_of(state)):
                pass
            case _:
                return None  # another program's
    if theirs != VERSION:
        return NameView(kind, name, f"aiolock {theirs}", refusal=used_by(theirs, key))
    try:
        return None if any(isinstance(reply, Exception) for reply in rest) else look.decode(rest, now_us)
    except ValueError:  # one of its numbers is none
        return NameView(kind, name, "damaged", refusal=damaged(key))
