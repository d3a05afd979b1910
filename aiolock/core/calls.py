"""What the core needs of a primitive: its requests about one name, and its contention rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from ..scripts.base import Call, Ending, Part
from ..scripts.outcomes import AcquireOutcome, ReleaseOutcome, RenewOutcome, TransferOutcome

Batch = Callable[[Iterable[Part]], Call[list[RenewOutcome]]]
"""Makes one request of many holds' renewals."""


class Contention(NamedTuple):
    """How many of a process's waiters talk to Redis, and whether a release may hand the lock to one of them.

    Attributes:
        contenders: 1 for a lock, k for a semaphore, None for all (readers, fair queues).
        handoff: a release may become a transfer to a local waiter.
    """

    contenders: int | None
    handoff: bool


class Calls(Protocol):
    """Requests about one name; each only spells a call, nothing is written."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def channels(self) -> Sequence[str]:
        """The channels on which a release is told."""

    @property
    def batch(self) -> Batch: ...

    def acquire(
        self, owner: str, ttl_ms: int, floor: int, metadata: str, depth: int = 1, fence: int = 0
    ) -> Call[AcquireOutcome]: ...

    def release(self, owner: str, ttl_ms: int, left: int, ending: Ending, tainted: bool) -> Call[ReleaseOutcome]: ...

    def transfer(
        self, owner: str, fence: int, successor: str, ttl_ms: int, floor: int, metadata: str, tainted: bool
    ) -> Call[TransferOutcome]: ...

    def renewal(self, owner: str, fence: int, ttl_ms: int) -> Part: ...
