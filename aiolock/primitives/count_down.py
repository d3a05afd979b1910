"""What opens when its counts are there: many report, many wait."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Literal, cast

from ..clock import format_seconds
from ..core.holding.telling import told_of
from ..core.policy import check_timeout
from ..core.runtime import Runtime
from ..errors import BackendError, WaitTimeout
from ..scripts.latch import LatchState
from .latch_watcher import CountCalls, LatchWatcher


class CountDown:
    """A base of latches.

    Args:
        runtime: the manager's.
        calls: requests about it.
    """

    __slots__ = ("_calls", "_runtime")

    def __init__(self, runtime: Runtime, calls: CountCalls) -> None:
        self._runtime = runtime
        self._calls = calls

    @property
    def name(self) -> str:
        """What is waited for."""
        return self._calls.name

    async def count(self) -> int:
        """Return how many counts are missing; 0: it is open.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return self._agree(await self._runtime.ask(self._calls.query(), "looking at"))

    async def wait(self, timeout: float | timedelta | None = None) -> Literal[True]:
        """Wait until it is open.

        Args:
            timeout: seconds to wait; 0 for one query, None for no limit.

        Returns:
            True, as with `asyncio.Event`.

        Raises:
            WaitTimeout: it did not open in time; the message says how many counts are missing.
            BackendError: Redis cannot be reached, did not answer the first query in time, or refuses. A task that
                already waits keeps waiting through an outage.
            NotAcquired: the manager was closed meanwhile.
            ConfigurationError: as for `count_down()`.

        Cancellation: nothing is left. Cost: one round trip if it is open. Otherwise a SUBSCRIBE and a second query,
        then one query every `recheck` seconds (or third of a shorter ttl), which keeps it from expiring, and one at the
        opening, however many tasks of the process wait; and one 0.1 s before a timeout.
        """
        limit = check_timeout(self.name, "timeout", timeout)
        runtime, name = self._runtime, self.name
        if limit == 0:
            state = await runtime.ask(self._calls.query(), "looking at")
            if self._agree(state):
                raise self._late(state, limit)
            return True
        runtime.binding.check(name)
        began = runtime.clock.now()
        expires = math.inf if limit is None else began + limit
        patience = min(limit or math.inf, runtime.limits.request_timeout)
        watcher = self._watcher()
        watcher.join(self._calls)
        try:
            while watcher.seen is None:
                await watcher.change(began + patience, lambda: runtime.unanswered(name, "waiting for", patience))
            if self._agree(watcher.seen):
                with told_of(runtime, self._calls):
                    while watcher.seen.left > 0:
                        await watcher.change(expires, lambda: self._late(cast(LatchState, watcher.seen), limit))
        finally:
            watcher.leave()
        return True

    def _watcher(self) -> LatchWatcher:
        gate = self._runtime.gates.get((self._calls.kind, self.name))
        return LatchWatcher(self._runtime, self._calls) if gate is None else cast(LatchWatcher, gate)

    def _counted(self, result: LatchState | BackendError) -> None:
        gate = self._runtime.gates.get((self._calls.kind, self.name))
        if gate is not None and isinstance(result, LatchState) and result.left == 0:
            gate.signal()  # the message may be denied

    def _agree(self, state: LatchState) -> int:
        """Return how many counts are missing."""
        return state.left

    def _late(self, state: LatchState, timeout: float | None) -> WaitTimeout:
        known = self._runtime.away(self.name)
        total = f" of {state.total}" if state.total else ""
        why = f"{state.left}{total} counts are missing"
        if known is not None:
            why += f": {known}"
        error = WaitTimeout(
            self.name, f"latch {self.name!r} did not open within {format_seconds(timeout or 0.0)} s: {why}"
        )
        error.__cause__ = known
        return error

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            f"a {type(self).__name__} cannot leave its process: create one with the same name from the other's manager"
        )
