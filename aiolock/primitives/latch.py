"""The count-down latch: many report, many wait, and it opens once."""

from __future__ import annotations

from datetime import timedelta

from ..core.policy import check_ttl, milliseconds
from ..core.runtime import Runtime
from ..errors import ConfigurationError
from ..log import Log
from ..scripts.keys import check_name
from ..scripts.latch import LatchCalls, LatchState
from .count_down import CountDown

logger: Log = Log("aiolock.latch")

MAX_COUNT = 100_000
"""A closed latch keeps one id for each count, and the server deletes them in one step."""


class Latch(CountDown):
    """A count-down latch across processes. Comes from `LockManager.latch()`; cheap, shareable between tasks.

    It opens after `count` counts, and stays open until it was unused for its `ttl`; then its name means a fresh latch.
    Its first use creates it and fixes its count.

    Args:
        runtime: the manager's.
        name: what is waited for.
        count: how many counts open it.
        ttl: seconds the server keeps it after its last use.
    """

    __slots__ = ("_warned",)

    _calls: LatchCalls

    def __init__(self, runtime: Runtime, name: str, count: int, ttl: float | timedelta) -> None:
        name = check_name(name)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_COUNT:
            raise ConfigurationError(
                name, f"count of latch {name!r} must be a whole number from 1 to {MAX_COUNT}, not {count!r}"
            )
        super().__init__(runtime, LatchCalls(runtime.keys, name, count, milliseconds(check_ttl(name, ttl))))
        self._warned = False

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

    def _counter(self, by: str) -> str:
        try:
            return f"by:{check_name(by)}"
        except ConfigurationError as error:
            raise ConfigurationError(
                self.name, f"by= of latch {self.name!r} must be text of 1 to 512 bytes in UTF-8, not {by!r:.80}"
            ) from error

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

    def __repr__(self) -> str:
        return f"<Latch {self.name!r} count={self._calls.total}>"
