"""What one owner has: depth, leases, loss. Shared by the leases of all its acquisitions."""

from __future__ import annotations

import asyncio
import weakref
from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...errors import AiolockError, LockLost, LossReason
from ...scripts.base import Ending
from ...scripts.outcomes import Granted
from ..calls import Calls, Contention, joint
from ..policy import Policy
from ..services import Services
from .term import Term, explain_loss, tell_of_loss

if TYPE_CHECKING:
    from .release import ReleaseResult


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

    __slots__ = ("__weakref__", "_calls", "_guard", "_hold", "_lock", "_result", "_task")

    _hold: Hold
    _calls: Calls
    """Requests of this acquisition's weight."""
    _task: asyncio.Task[object] | None
    """The task that acquired it; None once that has ended."""
    _guard: Block | None
    """What a loss cancels; None after a plain `await lock.acquire()`."""
    _lock: weakref.ref[object] | None
    """What it was acquired through, by hand."""
    _result: ReleaseResult | None
    """Once it was given up."""

    @abstractmethod
    def _give_up(self, ending: Ending, abandoned: bool = False) -> ReleaseResult:
        """Release it with a given ending; `abandoned` if its task has ended inside its block."""


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
        """The hold was extended, as `Term` says."""

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


class Hold(Term):
    """One owner's state: who shares it, and what a loss does to them.

    Args:
        owner: who has it.
        calls: requests for all that its leases have together.
        policy: how it is held.
        grant: what the server granted.
        sent_at: clock time before which that cannot have been.
        home: where it belongs.
        now: the clock's time.

    Attributes:
        began: clock time since which it is held.
    """

    __slots__ = (
        "__weakref__",
        "abandoned",
        "began",
        "capacity",
        "depth",
        "dropped",
        "home",
        "leases",
        "nesting",
        "scopes",
        "strays",
        "tainted",
        "told",
        "wanted",
        "watchers",
    )

    def __init__(
        self,
        owner: str,
        calls: Calls,
        policy: Policy,
        grant: Granted,
        sent_at: float,
        home: Home,
        now: float,
    ) -> None:
        super().__init__(owner, calls, policy, grant, sent_at, home.runtime)
        self.began: float = now
        self.abandoned: bool = grant.abandoned
        self.capacity: int = grant.capacity
        self.tainted: bool = False  # a request of the owner went unanswered
        self.depth: int = 1
        self.told: bool = False  # the loss was reported
        self.dropped: bool = False  # it was told that its user dropped a lease of it
        self.wanted: bool = False  # another asked its holder to finish
        self.leases: tuple[Level, ...] = ()  # not released, of tasks that still run
        self.strays: tuple[weakref.ref[Level], ...] = ()  # not released, of tasks that have ended
        self.nesting: tuple[Calls, ...] = ()  # requests for levels that have no lease yet
        self.scopes: tuple[Block, ...] = ()
        self.watchers: tuple[Watcher, ...] = ()
        self.home: Home = home

    def _lost(self, reason: LossReason) -> None:
        """Cancel what it guards, and tell those that wait for it."""
        for scope in self.scopes:
            tell_of_loss(scope.cancel, f"aiolock: lost {self.calls.name!r}: {reason.value}")
        self._tell_watchers(reason)
        if reason is LossReason.UNREACHABLE and self._error is None:
            self._error = self.home.unreachable
        self.home.lost(self)

    def _extended(self, deadline: float, pttl: int, sent_at: float) -> None:
        self.home.extended(self, deadline, pttl, sent_at)

    def _tell_watchers(self, reason: LossReason) -> None:
        for watcher in self.watchers:
            if not watcher.told.done():
                tell_of_loss(watcher.told.set_result, reason)
        self.watchers = ()

    def end(self) -> None:
        """End it: it was released, moved, or given up."""
        super().end()
        self.depth = 0
        self.scopes = ()

    def loss(self) -> LockLost:
        """Return the error for the marked loss."""
        error = self.failure()
        assert error is not None
        return error

    def failure(self) -> LockLost | None:
        """Return the error for the loss; None if there is none. By the clock, in any thread."""
        reason, blocked = self._cause()  # once: another thread may mark or end it meanwhile
        if reason is None:
            return None
        self.told = True
        name = self.calls.name
        why = explain_loss(reason, blocked, self._error)
        error = LockLost(name, f"lock {name!r} (fence {self.fence}) was lost: {why}", reason)
        if reason is LossReason.UNREACHABLE:
            error.__cause__ = self._error
        return error

    async def wait_lost(self, lease: Level) -> LossReason | None:
        """Wait for a loss, or for the end of `lease`: None."""
        return await self.watch(lease)

    async def wait_wanted(self, lease: Level) -> None:
        """Wait until another asks for it; or for a loss, or for the end of `lease`."""
        if self.check() is None and not lease._result is not None and not self.wanted:
            await self.watch(lease, wants=True)

    def watch(self, lease: Level, wants: bool = False) -> asyncio.Future[LossReason | None]:
        """Return what is done with the loss; or with None at the end of `lease`, or when it is wanted."""
        told: asyncio.Future[LossReason | None] = asyncio.get_running_loop().create_future()
        if self.check() is not None or lease._result is not None:
            told.set_result(self.reason)
        else:
            self.watchers += (Watcher(weakref.ref(lease), told, wants),)
            told.add_done_callback(self._unwatched)
        return told

    def _unwatched(self, told: asyncio.Future[LossReason | None]) -> None:
        self.watchers = tuple([other for other in self.watchers if other.told is not told])

    def want(self) -> None:
        """Another asks its holder to finish."""
        self.wanted = True
        for watcher in self.watchers:
            if watcher.wants:
                watcher.end()

    def left(self, lease: Level) -> None:
        """A lease ended: no one needs to wait for what happens to it."""
        for watcher in self.watchers:
            if watcher.lease() is lease:
                watcher.end()

    def part_with(self, lease: Level) -> tuple[Watcher, ...]:
        """Return who watches `lease`, and forget them: it is given up for a while, and they go on watching it."""
        parting = tuple([watcher for watcher in self.watchers if watcher.lease() is lease])
        self.watchers = tuple([watcher for watcher in self.watchers if watcher.lease() is not lease])
        return parting

    def take_over(self, watchers: tuple[Watcher, ...]) -> None:
        """Tell those that watched an earlier hold of a lease what happens to this one."""
        self.watchers += watchers
        if self.wanted:
            self.want()
        if self.reason is not None:
            self._tell_watchers(self.reason)

    def guarded(self, but: asyncio.Task[object] | None) -> bool:
        """Whether a task other than `but` is inside a guarded block."""
        return any(lease._guard is not None and lease._guard.task is not but for lease in self.leases)

    def weigh(self) -> None:
        """From now on its requests are for everything that its levels have together."""
        levels = [*self.nesting, *(lease._calls for lease in self.all_leases())]
        if levels:
            self.calls: Calls = joint(levels)

    def nested(self, calls: Calls) -> None:
        """A requested level has its lease, or will have none."""
        at = self.nesting.index(calls)
        self.nesting = (*self.nesting[:at], *self.nesting[at + 1 :])

    def all_leases(self) -> list[Level]:
        """The leases that are not released, including those that only their user can find."""
        return [*self.leases, *(lease for stray in self.strays if (lease := stray()) is not None)]

    def nesting_ttl_ms(self, wanted: int) -> int:
        """The ttl for one level more: the longest one requested. Only `renew()` extends a fixed lease."""
        if self.policy.renew:
            self.ttl_ms: int = max(self.ttl_ms, wanted)
            return self.ttl_ms
        return max(1, int((self.expiry - self._clock.now()) * 1000))


class Owner:
    """The owner of a lock, for a child task: `lock.acquire(owner=lease.owner)`. Opaque; valid in this process only."""

    __slots__ = ("_hold",)

    def __init__(self, hold: Hold) -> None:
        self._hold: Hold = hold

    def __repr__(self) -> str:
        return f"<Owner of {self._hold.calls.name!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an Owner cannot leave its process: acquire the lock in the other process instead")
