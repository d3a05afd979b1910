"""The kinds of names, and how anyone can look at each."""

from __future__ import annotations

from .condition import ConditionInspection
from .keys import Keys
from .latch import LatchInspection
from .lock.inspection import LockInspection
from .once import OnceInspection
from .queue.inspection import QueueInspection
from .view import Inspection

INSPECTED_KINDS = ("lock", "rw", "semaphore", "latch", "condition", "once")


def inspection_of(keys: Keys, kind: str, name: str, now_ms: int, deep: bool = False) -> Inspection:
    """Return how to look at a name.

    Args:
        keys: names the keys.
        kind: one of `INSPECTED_KINDS`.
        name: the name.
        now_ms: about the server's time.
        deep: also list holders and waiters.
    """
    match kind:
        case "lock":
            return LockInspection(keys, name, deep)
        case "latch":
            return LatchInspection(keys, name)
        case "condition":
            return ConditionInspection(keys, name)
        case "once":
            return OnceInspection(keys, name)
    return QueueInspection(keys, kind, name, deep, now_ms)
