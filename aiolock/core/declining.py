"""A grant to an owner of this manager that has ended: its queue entry came back, and is of no use to anyone."""

from __future__ import annotations

from .kinds import KINDS
from .release import PendingRelease
from .runtime import Runtime


def decline(runtime: Runtime, owner: str, key: str, capacity: int = 1) -> None:
    """Give a grant back, so that the next in line need not wait until it is over.

    After a failover the new master may have entries that left the queue while it did not hear of that; a request that
    comes late may bring one back, too.

    It can never end what a task has, or will have. An owner id is used once. From its first request on the manager
    knows it, as an entry, then as a hold, until its end is written; what it does not know has ended, or was detached.
    And the server ends only a grant that nobody has asked for or renewed; a detached lease was renewed.

    Args:
        runtime: the manager's.
        owner: who was granted, says a message; not one of the manager's entries.
        key: a key of the name.
        capacity: what the name holds in all.
    """
    if owner in runtime.holds or owner in runtime.ending or owner.partition(":")[0] != runtime.binding.id:
        return
    kind, name = runtime.keys.read(key) or ("", "")
    if kind not in KINDS:
        runtime.fences.doubt()
        return
    # Not noted as ending: a multi lock's owner may be granted another of its names before this one's end is answered.
    calls = KINDS[kind].calls(runtime, name, 1, capacity)
    PendingRelease(runtime, calls, owner, runtime.limits.liveness_ms, 0, "declined", tainted=False)
