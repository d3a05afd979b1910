"""One run of a leader's function: from its election until it ends, by itself or cancelled."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Generic, TypeVar

from ..core.guarding.scope import Edge
from ..core.lease import Lease
from ..errors import LockLost, NotOwned, tells_of_losses

T = TypeVar("T")


class Tenure(Generic[T]):
    """Runs the function while the term lasts and nobody asks for it.

    Args:
        term: the lease of the term.
        fn: the function.
        task: the running task.
        cancelled: how many cancellations of it were asked for before the first term.

    Attributes:
        results: what the function returned, if it came to its end by itself.
        failure: how it failed; None if it did not.
        wanted: whether it was cancelled because another asked for the term.
    """

    def __init__(
        self, term: Lease, fn: Callable[[Lease], Awaitable[T]], task: asyncio.Task[object], cancelled: int
    ) -> None:
        self.results: list[T] = []
        self.failure: BaseException | None = None
        self._term = term
        self._fn = fn
        self._task = task
        self._before = cancelled
        self.wanted: bool = False

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled; inside the term, also by its loss or by who wants it."""
        return self._task.cancelling() > self._before

    async def serve(self) -> None:
        """Run the function.

        Raises:
            LockLost: the term was lost.
            BackendError: the server refuses the release.
            BaseExceptionGroup: errors of a task group of the function's, together with its cancellation.
            TypeError: the function takes no term, or returns nothing that can be awaited.
        """
        term = self._term
        try:
            async with term, self._until_wanted():
                await self._call()
        except asyncio.CancelledError:
            if self.cancelled or not (term.lost or self.wanted):
                raise
            if term.lost:  # it ended with a cancellation of its own, which no scope takes for ours
                term.ensure()

    async def _call(self) -> None:
        term, begun = self._term, False
        try:
            work = self._fn(term)
            if not inspect.isawaitable(work):
                raise TypeError(f"a leader's function must be a coroutine function, but {self._fn!r} returned {work!r}")
            begun = True
            result = await work
        except asyncio.CancelledError as error:
            if term.lost or self.cancelled:
                raise
            self.failure = error  # it awaited something that was cancelled
        except Exception as error:
            if not begun and isinstance(error, TypeError):
                raise
            if term.lost and tells_of_losses(error):  # `term.ensure()` has told it
                term.ensure()
            self.failure = error
        else:
            if not self.wanted:  # otherwise it took its cancellation for a reason to return
                self.results.append(result)

    @asynccontextmanager
    async def _until_wanted(self) -> AsyncIterator[None]:
        """Cancel the block, once, as soon as another asks for the term: it is still valid while the block cleans up."""
        edge = Edge(self._task)

        async def watch() -> None:
            with suppress(LockLost, NotOwned):
                await self._term.wait_wanted()
                self.wanted = True
                edge.cancel(f"aiolock: {self._term.name!r} was requested")

        watching = asyncio.create_task(watch())
        try:
            yield
        except asyncio.CancelledError as error:
            if not edge.leave(error):
                raise
        finally:
            edge.leave(None)
            watching.cancel()
