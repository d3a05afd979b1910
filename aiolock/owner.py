"""An owner's id, `<manager id>:<mark><number>[p<priority>][~<ttl ms>]`: made and read here, and in scripts."""

from __future__ import annotations

import re

STEP = 60.0
"""Seconds by which one step of priority puts a waiter ahead of those that came before it; as join.lua and queue.lua."""
TASK = "f"
"""Marks a task that waits by itself: scripts end a turn while it is first."""
SEVERAL = "+"
"""Marks who wants several names: scripts end a turn while it is first."""
KEPT = "="
"""Ends the id of an owner that has ended, and whose name stays taken; as both release.lua."""
_MANAGER = re.compile(r"[0-9a-f]{32}")
_NUMBER = re.compile(rf"[{TASK}{SEVERAL}]?[1-9][0-9]*(?:p([1-9][0-9]*))?(?:~[1-9][0-9]*)?")


def compose(manager: str, mark: str, number: int, priority: int = 0, most_ms: int = 0) -> str:
    """Return an owner's id.

    Args:
        manager: the id of its manager.
        mark: tells scripts how its kind waits: `TASK`, `SEVERAL` or "".
        number: the manager's next.
        priority: how far ahead of others it queues; 0 if it does not.
        most_ms: for no longer may a queue grant it a name before it asks; 0 if its manager's `liveness` says that.
    """
    ahead, most = f"p{priority}" if priority else "", f"~{most_ms}" if most_ms else ""
    return f"{manager}:{mark}{number}{ahead}{most}"


def is_kept(owner: str) -> bool:
    """Whether it is nobody's: the name of an owner that has ended stays taken for a while."""
    return owner.endswith(KEPT)


def is_owner(text: str) -> bool:
    """Whether it may be an owner's id."""
    return bool(_MANAGER.fullmatch(manager_of(text)) and _NUMBER.fullmatch(own_part(text)))


def manager_of(owner: str) -> str:
    """The id of its manager."""
    return owner.partition(":")[0]


def own_part(owner: str) -> str:
    """What it adds to that of its manager. Whoever knows all of an id can act as the owner."""
    return owner.partition(":")[2]


def came_at(owner: str, queue_number: float) -> float:
    """When a waiter began to wait, in microseconds of the server, by its place in the queue."""
    found = _NUMBER.fullmatch(own_part(owner))
    return queue_number + (int(found[1]) * STEP * 1_000_000 if found and found[1] else 0)
