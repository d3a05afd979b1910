"""What the core needs of a primitive: its requests about one name, and its contention rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, cast

from ..record import Record
from ..scripts.base import Call, Ending, Keep, Part
from ..scripts.bid import Bid
from ..scripts.outcomes import AcquireOutcome, ReleaseOutcome

Batch = Callable[[Iterable[Part]], Call[list[Any]]]
"""Makes one request of many parts; the answer has an outcome for each. Equal ones are written together."""


class Contention(Record):
    """What a primitive promises to its holders and its waiters.

    Attributes:
        exclusive: one at a time, so no task asks for what another task of this process holds.
        reentrant: a task that holds the name nests in its hold.
        overlapping: it takes several names, which can also be taken one by one.
        divisible: a lease can be released in parts.
        watches: an end by force is only announced on its channel: holds that last listen there.
        entry: the class of what waits for it, a `QueueEntry`; None for the usual one.
    """

    exclusive: bool
    reentrant: bool = True
    overlapping: bool = False
    divisible: bool = False
    watches: bool = False
    entry: type[Any] | None = None


class Calls(Protocol):
    """Requests about one name, for acquisitions of one weight; each only creates a call, nothing is written."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def names(self) -> Sequence[str]:
        """The names of locks that it takes, if others can take them one by one."""

    @property
    def weight(self) -> int:
        """How much of the name an acquisition takes; one nested in a hold takes no more than the hold has."""

    @property
    def free_channel(self) -> str:
        """The channel that announces releases to whoever races; "" if the server only tells the next in its queue."""

    @property
    def queues(self) -> bool:
        """Whether the server keeps a queue for acquisitions that wait; otherwise they race."""

    @property
    def mark(self) -> str:
        """What the numbers in its owner ids begin with."""

    @property
    def ordered(self) -> bool:
        """Whether each acquisition waits in the server's queue by itself; otherwise its process does, for all its
        tasks.
        """

    @property
    def transfers(self) -> bool:
        """Whether a release can hand the name on inside the process."""

    @property
    def one_refresh(self) -> bool:
        """Whether the refresh of a process's first entry keeps all its entries; otherwise each is refreshed."""

    @property
    def keeps(self) -> bool:
        """Whether a release can leave the name taken for a while: then they are `KeepingCalls`."""

    @property
    def renew_many(self) -> Batch:
        """Combines many renewals into one request."""

    @property
    def refresh_many(self) -> Batch:
        """Combines many refreshes into one request."""

    def acquire(self, bid: Bid) -> Call[AcquireOutcome]:
        """Acquire it, wait for it in the server's queue, or learn who has it. What the queue has granted lasts for the
        ttl from then on.

        Args:
            bid: who wants it.
        """

    def nest(self, owner: str, fence: int, ttl_ms: int, depth: int) -> Call[Any]:
        """Add one level to what the owner holds with `fence`: now `depth` of them. The answer is `Kept` or `Granted`,
        otherwise why not.
        """

    def refresh(self, bid: Bid) -> Part:
        """Return an entry's heartbeat; the answer is that to an acquire, or that the server does not know it."""

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]: ...

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part:
        """Extend what the owner holds; 0 only reads it."""

    def departure(self, manager: str) -> Call[bool] | None:
        """Forget that a manager lives, if that is kept next to its waiters."""


class WeighedCalls(Calls, Protocol):
    """Requests about a name of which acquisitions can take more or less."""

    def weighing(self, weight: int) -> Calls:
        """Return the same requests, for acquisitions of another weight."""


class KeepingCalls(Calls, Protocol):
    """Requests about a name that can stay taken when its holder has ended."""

    def release(
        self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool, keep: Keep | None = None
    ) -> Call[ReleaseOutcome]:
        """If nothing is left, the name stays taken for a while; None frees it."""


def joint(calls: Sequence[Calls]) -> Calls:
    """Return the requests of an owner that has all of these: as heavy as one of each weight together. So a writer that
    also reads weighs more than one that does not.
    """
    strongest = max(calls, key=lambda each: each.weight)
    weight = sum({each.weight for each in calls})
    return strongest if weight == strongest.weight else cast(WeighedCalls, strongest).weighing(weight)
