"""One call of a thread, carried out on the event loop."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

R = TypeVar("R")


class Call(Generic[R]):
    """What a thread wants, and waits for.

    Args:
        name: the lock's, for errors.
        work: creates the coroutine that does it.
        unclaimed: takes back what it did, if the thread was interrupted and never learns of it; called on the loop.
        certain: it is begun in any case.

    Attributes:
        name: the lock's.
        certain: see above.
        given: the loop has it.
        over: it has come to an end.
        abandoned: its thread was interrupted, and does not want it any more.
        result: what the coroutine returned, alone in a list.
        error: what it raised.
    """

    __slots__ = (
        "_context",
        "_ended",
        "_unclaimed",
        "_work",
        "abandoned",
        "certain",
        "error",
        "given",
        "name",
        "over",
        "result",
    )

    def __init__(
        self,
        name: str,
        work: Callable[[], Coroutine[object, object, R]],
        unclaimed: Callable[[R], object] | None,
        certain: bool,
    ) -> None:
        self.name: str = name
        self.certain: bool = certain
        self._work: Callable[[], Coroutine[object, object, R]] | None = work
        self._unclaimed = unclaimed
        self._context = contextvars.copy_context()
        self._ended = threading.Lock()  # held until the end: nothing else is as cheap to wait for
        self._ended.acquire()
        self.given: bool = False
        self.over: bool = False
        self.abandoned: bool = False
        self.result: list[R] = []
        self.error: BaseException | None = None

    def wait(self) -> None:
        """Wait for its end, in the thread. In the main thread, a signal's handler may raise meanwhile."""
        with self._ended:
            pass

    def failure(self) -> BaseException:
        """Return its error, and keep none: its traceback refers to frames that refer to this."""
        error, self.error = self.error, None
        assert error is not None
        return error

    # On the loop.

    async def run(self) -> None:
        """Do it, with the thread's context variables, which observers look at; called once."""
        work, self._work = self._work, None  # it may refer to the task that keeps this call
        assert work is not None
        given = [(var, var.set(value)) for var, value in self._context.items() if not var.name.startswith("aiolock")]
        try:
            self.result.append(await work())
        finally:
            for var, token in given:
                var.reset(token)
        self.end()

    def abandon(self) -> None:
        """Its thread does not want it any more: take back what it did."""
        self.abandoned = True
        if self.result and self._unclaimed is not None:
            self._unclaimed(self.result.pop())

    def end(self, error: BaseException | None = None) -> None:
        """It is over; nothing happens if it was before."""
        if self.over:
            return
        self.over, self.error = True, error
        if self.abandoned:
            self.abandon()
        self._ended.release()
