"""What the core needs of a primitive: its requests about one name, and its contention rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from ..scripts.base import Call, Ending, Part
from ..scripts.outcomes import AcquireOutcome, ReleaseOutcome, TransferOutcome

Batch = Callable[[Iterable[Part]], Call[list[Any]]]
"""Makes one request of many parts; the answer has an outcome for each. Equal ones are written together."""


@dataclass(frozen=True, slots=True)
class Contention:
    """What a primitive promises to those who hold it, and to those who wait.

    Attributes:
        exclusive: one at a time, so that nobody asks for what a task of this process holds.
        reentrant: a task that holds the name nests in what it holds.
        overlapping: it takes several names, which can also be taken one by one.
        divisible: a lease can be given back in parts.
    """

    exclusive: bool
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
    def names(self) -> Sequence[str]:
        """The names of locks that it takes, where others can take them one by one."""

    @property
    def weight(self) -> int:
        """How much of the name an acquisition takes; one nested in a hold takes no more than the hold has."""

    @property
    def channels(self) -> Sequence[str]:
        """Where releases are told, if nobody keeps a queue; none where the server does, and tells whose turn it is."""

    @property
    def mark(self) -> str:
        """What the numbers in its owner ids begin with."""

    @property
    def ordered(self) -> bool:
        """Each acquisition waits in the server's queue by itself; else its process does, for all its tasks."""

    @property
    def transfers(self) -> bool:
        """A release can hand the name on inside the process."""

    @property
    def one_refresh(self) -> bool:
        """The refresh of a process's first entry keeps all its entries; else each is refreshed."""

    @property
    def batch(self) -> Batch:
        """What makes one request of many renewals."""

    @property
    def enter(self) -> Batch:
        """What makes one request of many refreshes."""

    def acquire(
        self,
        owner: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        liveness_ms: int = 0,
        counted: bool = True,
        more: Sequence[str] = (),
    ) -> Call[AcquireOutcome]:
        """Get it, or wait for it in the server's queue, or learn who has it.

        Args:
            owner: who wants it.
            ttl_ms: how long it is kept.
            floor: the highest fence heard of.
            metadata: what others are told of the owner.
            liveness_ms: how long it counts as waiting without a refresh; 0: it does not wait.
            counted: its process hears messages: one that reaches nobody proves that it is gone.
            more: further owners, which are queued behind it.
        """

    def nest(self, owner: str, fence: int, ttl_ms: int, depth: int) -> Call[Any]:
        """One level more of what the owner holds under `fence`: now `depth` of them. Answered `Kept` or `Granted`, else
        why not."""

    def refresh(
        self,
        owner: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        queue_number: int,
        liveness_ms: int,
        counted: bool,
    ) -> Part:
        """An entry's sign of life; answered as an acquire is, or that the server knows nothing of it."""

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]: ...

    def renewal(self, owner: str, fence: int, ttl_ms: int, metadata: str = "") -> Part:
        """Extends what the owner holds; the first one of a provisional grant confirms it, and says who it is."""


def joint(calls: Sequence[Calls]) -> Calls:
    """Requests of one who has all of these: as heavy as one of each weight together. So a writer that reads, too,
    weighs more than one that does not."""
    strongest = max(calls, key=lambda each: each.weight)
    weight = sum({each.weight for each in calls})
    return strongest if weight == strongest.weight else cast(QueueCalls, strongest).weighing(weight)


class TransferCalls(Calls, Protocol):
    """Requests about a name that is handed on inside the process."""

    def transfer(
        self,
        owner: str,
        fence: int,
        successor: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        over: bool,
        liveness_ms: int,
        counted: bool,
        tainted: bool,
    ) -> Call[TransferOutcome]:
        """End the owner, and grant the name to `successor`; if the turn is `over`, to the first in the queue, and queue
        `successor`."""


class GatherCalls(Calls, Protocol):
    """Requests about several names, of which some may be reserved before all are held."""

    def acquire(
        self,
        owner: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        liveness_ms: int = 0,
        counted: bool = True,
        more: Sequence[str] = (),
        number: int = 0,
    ) -> Call[AcquireOutcome]:
        """Hold all names, or wait in queues, under the `number` that it was told before."""

    def refresh(
        self,
        owner: str,
        ttl_ms: int,
        floor: int,
        metadata: str,
        queue_number: int,
        liveness_ms: int,
        counted: bool,
        part: str = "",
    ) -> Part:
        """A sign of life of who has nothing, and waits for the name `part`."""

    def give_back(self, owner: str, ttl_ms: int, keep: str) -> Call[ReleaseOutcome]:
        """End what is reserved, and leave all queues but that of the name `keep`."""


class ResumeCalls(Calls, Protocol):
    """Requests about a name whose hold can move to another process."""

    def resume(
        self, owner: str, fence: int, successor: str, ttl_ms: int, floor: int, metadata: str, tainted: bool
    ) -> Call[TransferOutcome]:
        """Make `successor` the owner of what `owner` holds under `fence`."""


class QueueCalls(Calls, Protocol):
    """Requests about a name that has a capacity."""

    def weighing(self, weight: int) -> Calls:
        """The same requests for an acquisition of another weight."""
