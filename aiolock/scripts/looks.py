"""The kinds of names, and how anyone can look at each."""

from __future__ import annotations

from .condition.sight import ConditionLook
from .keys import Keys
from .latch.sight import LatchLook
from .lock.sight import LockLook
from .once.sight import OnceLook
from .queue.sight import QueueLook
from .sight import Look

SEEN_KINDS = ("lock", "rw", "semaphore", "latch", "condition", "once")


def look_at(keys: Keys, kind: str, name: str, now_ms: int, deep: bool = False) -> Look:
    """Return how to look at a name.

    Args:
        keys: names the keys.
        kind: one of `SEEN_KINDS`.
        name: the name.
        now_ms: about the server's time.
        deep: also list holders and waiters.
    """
    match kind:
        case "lock":
            return LockLook(keys, name, deep)
        case "latch":
            return LatchLook(keys, name)
        case "condition":
            return ConditionLook(keys, name)
        case "once":
            return OnceLook(keys, name)
    return QueueLook(keys, kind, name, deep, now_ms)
