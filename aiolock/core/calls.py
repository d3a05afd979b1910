"""What the core needs of a primitive: its requests about one name, and its contention rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, cast

from ..scripts.base import Call, Ending, Part
from ..scripts.outcomes import AcquireOutcome, ReleaseOutcome, TransferOutcome

Batch = Callable[[Iterable[Part]], Call[list[Any]]]
"""Makes one request of many parts; the answer has an outcome for each. Equal ones are written together."""


class Contention(NamedTuple):
    """How many of a process's waiters talk to Redis, and whether a release may hand the lock to one of them.

    Attributes:
        contenders: 1 for a lock; None for all, where the server keeps the queue.
        handoff: a release may become a transfer to a local waiter.
        reentrant: a task that holds the name nests in what it holds.
        overlapping: what it takes can also be taken through another queue of this process.
        divisible: a lease can be given back in parts.
    """

    contenders: int | None
    handoff: bool
    reentrant: bool = True
    overlapping: bool = False
    divisible: bool = False


class Calls(Protocol):
    """Requests about one name, for acquisitions of one weight; each only makes a call, nothing is written."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> int:
        """How much of the name an acquisition takes; one nested in a hold takes no more than the hold has."""

    @property
    def channels(self) -> Sequence[str]:
        """The channels on which a release is told; none where the server keeps a queue."""

    @property
    def batch(self) -> Batch:
        """What makes one request of many renewals."""

    def acquire(
        self,
        owner: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        depth: int = 1,
        fence: int = 0,
        queue_number: int = 0,
        mark_ms: int = 0,
    ) -> Call[AcquireOutcome]:
        """Get it, or learn who has it.

        Args:
            owner: who wants it.
            ttl_ms: how long it is kept.
            floor: the highest fence heard of.
            metadata: what others are told of the owner.
            depth: levels, this one included.
            fence: of the hold it nests in; 0 for none.
            queue_number: in a queue kept by the server; see `JOIN`.
            mark_ms: how long a refused owner counts as waiting, in the eyes of who hands the name on; 0 if it listens.
        """

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]: ...

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part: ...


def joint(calls: Sequence[Calls]) -> Calls:
    """Requests of one who has all of these: as heavy as one of each weight together. So a writer that reads, too,
    weighs more than one that does not."""
    strongest = max(calls, key=lambda each: each.weight)
    weight = sum({each.weight for each in calls})
    return strongest if weight == strongest.weight else cast(QueueCalls, strongest).weighing(weight)


class HandoffCalls(Calls, Protocol):
    """Requests about a name that can be handed on inside the process."""

    def transfer(
        self, owner: str, fence: int, successor: str, ttl_ms: int, floor: int, metadata: str, tainted: bool
    ) -> Call[TransferOutcome]: ...


class QueueCalls(Calls, Protocol):
    """Requests about a name whose queue is kept by the server."""

    @property
    def enter(self) -> Batch:
        """What makes one request of many refreshes."""

    def weighing(self, weight: int) -> Calls:
        """The same requests for an acquisition of another weight."""

    def refresh(self, owner: str, ttl_ms: int, floor: int, metadata: str, queue_number: int) -> Part:
        """A waiter's sign of life; answered as an acquire is."""
