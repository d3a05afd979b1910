"""The kinds of names, and how anyone can look at each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from . import condition, latch, once
from .foreign import BEFORE, TEXT, VERSION, used_by
from .keys import Keys
from .lock.inspection import LockInspection
from .queue.inspection import QueueInspection
from .view import Inspection, Look, NameView, text_of

INSPECTED_KINDS = ("lock", "rw", "semaphore", "latch", "condition", "once")


def inspection_of(keys: Keys, kind: str, name: str, now_ms: int, deep: bool = False) -> Look:
    """Return how to look at a name. Replies may be errors, if they say that a key has another type.

    Args:
        keys: names the keys.
        kind: one of `INSPECTED_KINDS`.
        name: the name.
        now_ms: about the server's time.
        deep: also list holders and waiters.
    """
    look, names = _look_at(keys, kind, name, now_ms, deep), keys.of(kind, name)
    key = names.state if kind in ("rw", "semaphore") else names.lock
    asked = [("HGET", key, "version"), ("EXISTS", key), ("MGET", key)]  # MGET refuses no type: a lock was text once
    return Look([*asked, *look.commands], partial(_decode, look, kind, name, key))


def _look_at(keys: Keys, kind: str, name: str, now_ms: int, deep: bool) -> Inspection:
    match kind:
        case "lock":
            return LockInspection(keys, name, deep)
        case "latch":
            return latch.look(keys, name)
        case "condition":
            return condition.look(keys, name)
        case "once":
            return once.look(keys, name)
    return QueueInspection(keys, kind, name, deep, now_ms)


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
    return None if any(isinstance(reply, Exception) for reply in rest) else look.decode(rest, now_us)
