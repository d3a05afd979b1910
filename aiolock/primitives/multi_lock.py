"""Several locks at once, all or none: its calls and its contention rule."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from ..core.calls import Contention
from ..core.policy import Policy, check_duration
from ..core.runtime import Runtime
from ..errors import ConfigurationError
from ..scripts.keys import check_name
from ..scripts.multi import MultiCalls
from ..scripts.multi.spread import multi_calls
from .kinds import lock_calls
from .lock import LockInfo, lock_info
from .reentrant import Reentrant
from .revocation import request_release
from .vacancy import Vacancy

MAX_NAMES = 10_000
"""So many take about 160 round trips: see docs/how-to/primitives.md."""


class MultiLock(Reentrant, Vacancy):
    """Several locks as one, across processes: all or none, and no order can cause a deadlock.

    One script takes up to 64 names. More, and those in several slots of a cluster, are taken piece by piece, in an
    order that all processes share, and it holds the earlier ones while it waits for the later ones; see
    docs/how-to/primitives.md.

    Comes from `LockManager.multi_lock()`; cheap, reusable, shareable between tasks. It takes the same locks as
    `LockManager.lock()`: a holder of one of the names, that way or through another multi lock, excludes it. A task that
    holds the same names nests; one that holds only some of them gets `NotAcquired`. There is one lease and one fence
    for all names, lost if one of them is.

    While it waits it may reserve some of the names in one piece, so that it enters however much others use them; it
    frees them after a quarter of its wait, after 10 s at most. Waiting costs one more request for each name that
    it is granted before the last.

    Cost: one round trip to enter and one to leave. In k pieces k + 1 to enter, and one to leave, with k requests at
    once.

    Args:
        runtime: the manager's.
        names: what is locked, sorted, each once.
        policy: how.
    """

    __slots__ = ()

    _calls: MultiCalls
    contention: ClassVar[Contention] = Contention(exclusive=True, overlapping=True)

    def __init__(self, runtime: Runtime, names: tuple[str, ...], policy: Policy) -> None:
        super().__init__(runtime, multi_calls(runtime.keys, names, runtime.backend.slot), policy)

    @property
    def names(self) -> tuple[str, ...]:
        """What is locked: sorted, each name once."""
        return self._calls.names

    async def is_locked(self) -> bool:
        """Return True if any of the names is held. Cost: one round trip."""
        return bool(await self.info())

    async def info(self) -> dict[str, LockInfo]:
        """Return who holds which of the names; free ones are left out. On a cluster the answers of different slots are
        not of one moment.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip, read-only; a request to each slot.
        """
        answers = await self._runtime.ask(self._calls.info(), "looking at")
        return {name: lock_info(held) for name, held in zip(self.names, answers, strict=True) if held is not None}

    async def request_release(self, grace: float | timedelta = 0.0, *, force: bool = False) -> bool:
        """Ask who holds any of the names to finish, as `Lock.request_release()` does.

        Args:
            grace: seconds to wait until those holds have ended; 0 only asks.
            force: end those that have not ended then.

        Returns:
            True if all holds that were asked to end have ended, or if nobody held any name.

        Raises:
            BackendError: Redis is unreachable or refuses.
            ConfigurationError: a grace that cannot be; the manager is not entered, or closes.

        Cancellation: holders may have been asked. Cost: that of `Lock.request_release()` for each name, of
        250 names at once.
        """
        seconds = check_duration(self.name, "grace", grace)
        each = [lock_calls(self._runtime, name) for name in self.names]
        return await request_release(self._runtime, each, seconds, force)


def check_names(names: tuple[object, ...]) -> tuple[str, ...]:
    """Return `names` sorted, each once.

    Raises:
        ConfigurationError: none, more than 10,000, or one that cannot name a lock.
    """
    if len(names) == 1 and isinstance(names[0], list | tuple | set):
        raise ConfigurationError("", "a multi lock's names must be str, each an argument: write multi_lock(*names)")
    different = tuple(sorted({check_name(name) for name in names}))
    if not different:
        raise ConfigurationError("", "a multi lock needs names: multi_lock('a', 'b')")
    if len(different) > MAX_NAMES:
        few = f"{MAX_NAMES} at most: lock something coarser"
        raise ConfigurationError(
            different[0], f"a multi lock has {len(different)} names from {different[0]!r} on, {few}"
        )
    return different
