"""What every primitive with leases can do, however it is acquired."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from sys import _getframe
from types import FrameType, TracebackType

from ..clock import Clock
from ..core.lease import Lease as AsyncLease
from ..errors import NotOwned
from ..log import Log
from ..primitives.base import Primitive as AsyncPrimitive
from ..usage import Renamed, SyncOnly
from .blocks import Blocks
from .interruption import insist
from .lease import Lease, watch_over
from .options import OnLost
from .portal import Portal

logger: Log = Log("aiolock.guard")


class Primitive(SyncOnly, Renamed):
    """A primitive of `aiolock`, for threads.

    Args:
        portal: the manager's.
        core: what it stands for, on the manager's event loop.
        on_lost: called when a lease of it is lost.
    """

    __slots__ = ("__weakref__", "_blocks", "_core", "_on_lost", "_portal")

    _core: AsyncPrimitive

    def __init__(self, portal: Portal, core: AsyncPrimitive, on_lost: OnLost | None) -> None:
        self._portal = portal
        self._core = core
        self._on_lost = on_lost
        self._blocks = Blocks()

    @property
    def name(self) -> str:
        """What is locked."""
        return self._core.name

    @property
    def clock(self) -> Clock:
        """The clock that its leases live by."""
        return self._core.clock

    def release(self) -> None:
        """Release the calling thread's innermost lease on the name, as an RLock would, and wait for the answer.

        Raises:
            NotOwned: this thread has no lease: call `lease.release()` on the lease that another thread acquired. Or a
                `with` block has it, which releases it at its end.
            LockLost: the lease was lost.
            BackendError: the server refuses.

        If a signal interrupts it, the lock is still released. Cost: one round trip.
        """
        self._release(self._core.release)

    def cancel_waits(self) -> int:
        """End all acquires of this name that wait in this process, on both sides of a read-write lock: each raises
        `NotAcquired` in its thread, and nothing is held. Those of other processes keep waiting, and so do later ones.

        Returns:
            How many they were.

        Raises:
            ConfigurationError: the manager is not open, or in a forked child.
        """

        async def work() -> int:
            return self._core.cancel_waits()

        return self._portal.call(self.name, work)

    def owned(self) -> int:
        """How many leases on the name the calling thread has, without lost ones; 0 if it does not hold it.

        For a read-write lock it counts those of this side. It costs no round trip.

        Raises:
            ConfigurationError: the manager is not open, or in a forked child.
        """

        async def work() -> int:
            return self._core.owned()

        return self._portal.call(self.name, work)

    def __enter__(self) -> Lease:
        return self._enter(_getframe(1))

    def _enter(self, frame: FrameType) -> Lease:
        """Enter a block of this frame."""
        lease = None
        try:
            lease = self._obtain(self._begin, enters=True)
            self._blocks.enter(frame, lease)
            return lease
        except BaseException as error:
            if lease is not None:
                try:
                    lease._exit(type(error), error, None)
                except BaseException:
                    lease._exit(type(error), error, None)
                    raise
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        found: list[Lease] = []
        insist(lambda: self._leave(found, _getframe(3), kind, error, trace))

    def _leave(
        self,
        found: list[Lease],
        frame: FrameType,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the block of this frame; `found` is for a repeat, which might find the block around it."""
        if not found:
            lease = self._blocks.find(frame)
            if lease is None:
                if self._blocks:
                    self._undecided(kind)
                return
            found.append(lease)
        found[0]._exit(kind, error, trace)

    def _release(self, release: Callable[[], Awaitable[object]]) -> None:
        """Call and await `release`, which returns what the calling thread has."""

        begun: list[bool] = []

        async def work() -> None:
            if begun:
                return
            begun.append(True)
            try:
                releasing = release()
            except NotOwned as error:
                raise self._unowned() from error
            await releasing

        insist(lambda: begun or self._portal.call(self.name, work, certain=True))

    def _obtain(self, acquire: Callable[[], Awaitable[AsyncLease]], enters: bool = False) -> Lease:
        """Return a new lease of the calling thread; with `enters` it guards a block of it."""
        host = self._portal.task(self.name)

        async def work() -> Lease:
            lease = self._lease(await acquire())
            if enters:
                await lease._guard(host)
            return lease

        return self._portal.call(self.name, work, _take_back)

    def _obtain_now(self, attempt: Callable[[], Awaitable[AsyncLease | None]]) -> Lease | None:

        async def work() -> Lease | None:
            core = await attempt()
            return None if core is None else self._lease(core)

        return self._portal.call(self.name, work, _take_back)

    @abstractmethod
    def _begin(self) -> Awaitable[AsyncLease]:
        """What `with` acquires."""

    def _lease(self, core: AsyncLease) -> Lease:
        lease = Lease(self._portal, core)
        if self._on_lost is not None:
            watch_over(lease, self._on_lost)
        return lease

    def _unowned(self) -> NotOwned:
        return NotOwned(
            self.name,
            f"this thread has no lease on lock {self.name!r} to release: call release() on the lease that another "
            "thread acquired. A `with` block releases its lease at its end",
        )

    def _undecided(self, kind: type[BaseException] | None) -> None:
        what = (
            f"lock {self.name!r} was left in a thread that did not enter it, and it is unclear which of several open "
            "blocks is meant: none was released. Keep the lease that acquire() returns, and enter and leave that one: "
            "it knows its own block"
        )
        logger.error(what, extra={"lock_name": self.name})
        if kind is None:
            raise NotOwned(self.name, what)

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> tuple[object, ...]:
        return self._core.__reduce__()


def _take_back(lease: Lease | None) -> None:
    if lease is not None:
        lease._take_back()
