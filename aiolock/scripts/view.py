"""What anyone can see of a name with plain commands that change nothing: for tools, and for people on call.

Scripts are for those who take part. These commands need no script and no connection of a manager's, and a right to
read is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from ..owner import manager_of
from ..record import Record

Command = tuple[str, ...]


class HolderInfo(Record):
    """One holder of a name.

    Attributes:
        manager: the first characters of its manager's id: the same for all leases of one process.
        process: host and pid; "" if it is not known of this one.
        metadata: of its lock.
        fence: of its grant.
        depth: how many acquisitions it has open; 0 if it was granted, and has not asked for that yet.
        permits: how many of a semaphore's; 1 of anything else.
        ttl: seconds until it expires unless renewed.
        held_for: seconds since its grant; None if its fence does not tell that.
        slots: which permits of a semaphore, if it has `slots=True` and has learned them.
    """

    manager: str
    process: str
    metadata: str | None
    fence: int
    depth: int
    permits: int
    ttl: float
    held_for: float | None = None
    slots: tuple[int, ...] = ()


class WaiterInfo(Record):
    """One place in a queue.

    Attributes:
        position: from 1.
        manager: as for a holder.
        process: as for a holder.
        wants: "lock", "read", "write", "permits"; "task" for one place of a fair lock; "notification".
        permits: how many.
        waited: seconds since it took the place; None if the store does not tell.
        alive: whether it sent a heartbeat in time; otherwise it will be passed over.
    """

    position: int
    manager: str
    process: str
    wants: str
    permits: int
    waited: float | None
    alive: bool


class NameView(Record):
    """One name of one kind, as the server has it at one moment.

    Attributes:
        kind: "lock", "rw", "semaphore", "latch", "condition" or "once"; "redisson" for a lock of Redisson's.
        name: the name.
        state: of a lock "held", "granted" (and not asked for yet), "kept" (after its release), "free" or "abandoned"
            (free, but its last holder vanished); of a read-write lock "read", "write" or "free"; of a semaphore "held",
            "full" or "free"; of a latch "closed" or "open"; of a condition "waiting"; of a run what `RunStatus` says;
            "aiolock 0.2" if keys of that version are in the way; "damaged" if someone has changed its numbers.
        process: host and pid of the one that entered last; of Redisson's, the ids of clients and threads.
        metadata: of that one.
        fence: of the last grant; 0 if the kind has none.
        ttl: seconds until the last holder's lease is over unless renewed; of a latch or a run, until it is forgotten.
        held_for: seconds since that one was admitted; None if nobody was, or its fence does not tell.
        used: how much is held; of a latch, how many counts are missing.
        capacity: how much there is in all.
        waiting: how many places the queue has.
        oldest_wait: seconds that the first in the queue has waited; None without one.
        holders: all of them, in the order of their fences, if they were asked for.
        queue: first to last, if it was asked for.
        refusal: why this version cannot read its keys; then nothing more is known. "": it can.
    """

    kind: str
    name: str
    state: str
    process: str = ""
    metadata: str | None = None
    fence: int = 0
    ttl: float | None = None
    held_for: float | None = None
    used: int = 0
    capacity: int = 1
    waiting: int = 0
    oldest_wait: float | None = None
    holders: tuple[HolderInfo, ...] = ()
    queue: tuple[WaiterInfo, ...] = ()
    refusal: str = ""

    @property
    def listed(self) -> bool:
        """Whether it concerns people: it is taken, waited for, or in the way."""
        return self.taken or self.waiting > 0 or self.refusal != ""

    @property
    def taken(self) -> bool:
        """Whether somebody has it, so that another may have to wait."""
        return self.state in ("held", "granted", "kept", "full", "read", "write", "closed", "running")


def seconds_since(us: float, now_us: int) -> float:
    """Seconds since the server's time `us`: of a number in a queue, or of a fence. Either is greater than that time
    only if the clock was set back, or after many in one microsecond.
    """
    return max(0.0, (now_us - us) / 1e6)


class Inspection(Protocol):
    """How to look at one name of one kind."""

    @property
    def commands(self) -> Sequence[Command]:
        """They only read, all of them keys of that name."""

    def decode(self, replies: Sequence[object], now_us: int) -> NameView | None:
        """Return what the replies to `commands` say; None if the server knows nothing of it.

        Args:
            replies: no error among them.
            now_us: the server's time.
        """


class Look(NamedTuple):
    """An `Inspection` made of its parts."""

    commands: Sequence[Command]
    decode: Callable[[Sequence[object], int], NameView | None]


def short(owner: str) -> str:
    """What may be shown of an owner's id, which nobody else may know: the beginning of its manager's."""
    return manager_of(owner)[:8]


def text_of(reply: object) -> str:
    """A reply that is text; "" if there is none."""
    return reply.decode(errors="replace") if isinstance(reply, bytes) else ""


def number_of(reply: object) -> int:
    """A reply that is a whole number, also as text or as a score."""
    if isinstance(reply, int):
        return reply
    return int(float(reply)) if isinstance(reply, bytes) and reply else 0


def pairs_of(reply: object) -> list[tuple[str, str]]:
    """A reply that lists fields and values, or members and scores, in its order."""
    if isinstance(reply, dict):
        return [(text_of(key), text_of(value)) for key, value in reply.items()]
    flat = [text_of(one) for one in reply] if isinstance(reply, list) else []
    return list(zip(flat[::2], flat[1::2], strict=False))


def with_processes(views: Sequence[NameView]) -> list[NameView]:
    """Name the processes of holders and waiters that are known from others of the same manager: it has one process."""
    entries: list[HolderInfo | WaiterInfo] = [holder for view in views for holder in view.holders]
    entries += [waiter for view in views for waiter in view.queue]
    known = {one.manager: one.process for one in entries if one.process}
    return [
        replace(
            view,
            holders=tuple(replace(one, process=known.get(one.manager, "")) for one in view.holders),
            queue=tuple(replace(one, process=known.get(one.manager, "")) for one in view.queue),
        )
        for view in views
    ]
