"""One acquisition of a hold, and who has to do with it: a block, a watcher, a child task, the gate of its name."""

from __future__ import annotations

import asyncio
import weakref
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...errors import AiolockError, ConfigurationError, LossReason
from ...scripts.base import Ending
from ..calls import Calls, Contention
from ..services import Services

if TYPE_CHECKING:
    from .hold import Hold
    from .release import Release


FENCED = "what fenced() has read must stay so: leave its block before"


class Block:
    """A guarded block, as its lease and its hold see it."""

    __slots__ = ()

    task: asyncio.Task[object] | None
    """The task that entered it."""

    @abstractmethod
    def cancel(self, reason: str) -> None:
        """Cancel it, if it still runs: its hold is lost."""

    @abstractmethod
    def abandon(self) -> None:
        """Its task has ended without leaving it, and its scope has ended with it."""


class Level:
    """One acquisition of a hold, as the hold, its task and its block see it; `Lease` is what you get."""

    __slots__ = ("__weakref__", "_calls", "_guard", "_hold", "_lock", "_pins", "_result", "_task")

    _hold: Hold
    _calls: Calls
    """Requests of this acquisition's weight."""
    _task: asyncio.Task[object] | None
    """The task that acquired it; None once that has ended."""
    _guard: Block | None
    """What a loss cancels; None after a plain `await lock.acquire()`."""
    _lock: weakref.ref[object] | None
    """What it was acquired through, manually."""
    _result: Release | None
    """Once it was given up."""
    _pins: int
    """How many transactions rely on this very hold."""

    @abstractmethod
    def _give_up(self, ending: Ending, abandoned: bool = False) -> Release:
        """Release it with a given ending; `abandoned` if its task has ended inside its block."""

    @contextmanager
    def _pinned(self) -> Iterator[None]:
        """Rely on its hold for the time of a block."""
        self._pins += 1
        try:
            yield
        finally:
            self._pins -= 1

    def _check_may_leave(self) -> None:
        """Raise if it has to stay: no ticket of it, no wait for its condition.

        Raises:
            ConfigurationError: says why.
        """
        name, stays = self._hold.calls.name, FENCED if self._pins else self._hold.policy.stays
        if stays:
            raise ConfigurationError(name, f"lock {name!r} cannot be detached, or released in a wait: {stays}")


class Home(Protocol):
    """Where a hold belongs: the gate of its name, of which it needs no more. So holds know nothing of waiting."""

    @property
    def runtime(self) -> Services:
        """The manager's."""

    @property
    def unreachable(self) -> AiolockError | None:
        """Why there is no server, if there is none."""

    contention: Contention

    def lost(self, hold: Hold) -> None:
        """The hold is lost, and not yet ended."""

    def extended(self, hold: Hold, deadline: float, pttl: int, sent_at: float) -> None:
        """The hold was extended by `pttl` ms, by the answer to what was written at the clock time `sent_at`; otherwise
        it would have been lost at `deadline`.
        """

    def expel(self, hold: Hold) -> None:
        """End the hold, unless it guards a block: the manager closes."""


class Watcher(NamedTuple):
    """Who wants to know of a loss, or of a request to finish.

    Attributes:
        lease: the one that it watches, which it does not keep.
        told: done with the loss; or with None at the end of the lease, or when it is wanted.
        wants: whether that is told.
    """

    lease: weakref.ref[Level]
    told: asyncio.Future[LossReason | None]
    wants: bool

    def end(self) -> None:
        """There is nothing to watch any more."""
        if not self.told.done():
            self.told.set_result(None)


class Owner:
    """The owner of a lock, for a child task: `lock.acquire(owner=lease.owner)`. Opaque; valid in this process only."""

    __slots__ = ("_hold",)

    def __init__(self, hold: Hold) -> None:
        self._hold: Hold = hold

    def __repr__(self) -> str:
        return f"<Owner of {self._hold.calls.name!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an Owner cannot leave its process: acquire the lock in the other process instead")
