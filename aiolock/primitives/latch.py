"""The count-down latch: many report, many wait, and it opens once."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import cast

from ..clock import format_seconds
from ..core.holding.telling import told_of
from ..core.policy import check_timeout, check_ttl, milliseconds
from ..core.runtime import Runtime
from ..errors import BackendError, ConfigurationError, WaitTimeout
from ..log import Log
from ..scripts.keys import check_name
from ..scripts.latch import LatchCalls, LatchState
from .latch_watcher import LatchWatcher

logger: Log = Log("aiolock.latch")

MAX_COUNT = 100_000
"""A closed latch keeps one id for each count, and the server deletes them in one step."""


class Latch:
    """A count-down latch across processes. Comes from `LockManager.latch()`; cheap, shareable between tasks.

    It opens after `count` counts, and stays open until it was unused for its `ttl`; then its name means a fresh latch.
    Its first use creates it and fixes its count.

    Args:
        runtime: the manager's.
        name: what is waited for.
        count: how many counts open it.
        ttl: seconds the server keeps it after its last use.
    """

    __slots__ = ("_calls", "_runtime", "_warned")

    def __init__(self, runtime: Runtime, name: str, count: int, ttl: float | timedelta) -> None:
        name = check_name(name)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_COUNT:
            raise ConfigurationError(
                name, f"count of latch {name!r} must be a whole number from 1 to {MAX_COUNT}, not {count!r}"
            )
        self._runtime = runtime
        self._calls = LatchCalls(runtime.keys, name, count, milliseconds(check_ttl(name, ttl)))
        self._warned = False

    @property
    def name(self) -> str:
        """What is waited for."""
        return self._calls.name

    async def count_down(self, by: str | None = None) -> int:
        """Count down by one; an open latch stays as it is.

        Each call counts once, however often the library has to write it. The library cannot know whether you mean the
        same count when you call again after an error, a cancellation, or a crash of your process. Pass `by=`, and it
        knows: a latch counts each `by` once.

        Args:
            by: who or what is counted, text of 1 to 512 bytes in UTF-8; None counts in any case.

        Returns:
            How many counts are missing now; 0: it is open.

        Raises:
            BackendError: Redis is unreachable or refuses. Without an answer it may have been counted, or may be once
                the connection is back.
            ConfigurationError: a `by` that cannot work; or the manager is not entered, closed, of another loop, or of a
                parent process.

        Cancellation: it counts if it was already written. Cost: one round trip.
        """
        self._runtime.binding.check(self.name)
        call = self._calls.count_down(self._runtime.binding.new_owner("") if by is None else self._counter(by))
        call.settle = self._counted
        return self._agree(await self._runtime.ask(call, "counting down"))

    async def count(self) -> int:
        """Return how many counts are missing; 0: it is open.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip.
        """
        return self._agree(await self._runtime.ask(self._calls.query(), "looking at"))

    async def delete(self) -> bool:
        """End it, open or not; the next use of its name creates a fresh one, with all counts missing.

        For a latch without waiters. A task that still waits, and has not seen it open, then waits for the fresh one, as
        after an expiry.

        Returns:
            True if there was one.

        Raises:
            BackendError: Redis is unreachable or refuses. Without an answer it may have been deleted.
            ConfigurationError: as for `count_down()`.

        Cancellation: it may still happen. Cost: one round trip.
        """
        return await self._runtime.ask(self._calls.delete(), "deleting", again=False)

    async def wait(self, timeout: float | timedelta | None = None) -> None:
        """Wait until it is open.

        Args:
            timeout: seconds to wait; 0 for one query, None for no limit.

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
            return
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

    def _watcher(self) -> LatchWatcher:
        gate = self._runtime.gates.get((LatchCalls.kind, self.name))
        return LatchWatcher(self._runtime, self._calls) if gate is None else cast(LatchWatcher, gate)

    def _counter(self, by: str) -> str:
        try:
            return f"by:{check_name(by)}"
        except ConfigurationError as error:
            raise ConfigurationError(
                self.name, f"by= of latch {self.name!r} must be text of 1 to 512 bytes in UTF-8, not {by!r:.80}"
            ) from error

    def _counted(self, result: LatchState | BackendError) -> None:
        gate = self._runtime.gates.get((LatchCalls.kind, self.name))
        if gate is not None and isinstance(result, LatchState) and result.left == 0:
            gate.signal()  # the message may be denied

    def _agree(self, state: LatchState) -> int:
        if state.total != self._calls.total and not self._warned:
            self._warned = True
            logger.warning(
                "latch %r was made with count=%d, not %d: the first use decides, until it expires",
                self.name,
                state.total,
                self._calls.total,
                extra={"lock_name": self.name},
            )
        return state.left

    def _late(self, state: LatchState, timeout: float | None) -> WaitTimeout:
        known = self._runtime.away(self.name)
        why = f"{state.left} of {state.total} counts are missing"
        if known is not None:
            why += f": {known}"
        error = WaitTimeout(
            self.name, f"latch {self.name!r} did not open within {format_seconds(timeout or 0.0)} s: {why}"
        )
        error.__cause__ = known
        return error

    def __repr__(self) -> str:
        return f"<Latch {self.name!r} count={self._calls.total}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Latch cannot leave its process: create one with the same name from the other's manager")
