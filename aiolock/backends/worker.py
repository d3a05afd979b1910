"""A task that only its owner can end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from ..log import Log

R = TypeVar("R")
logger: Log = Log("aiolock.redis")

PAUSE = 0.01
"""Seconds without a task after another task cancelled it: so a shutdown that cancels until no task is left comes to an
end, and so does a loop that is being closed.
"""


class Worker(Generic[R]):
    """Works in a task, on the running loop. Code that cancels every other task in the loop ends it only for a moment.

    Args:
        work: what to do; started again after an error, or after a stranger cancelled it.
        done: gets its result.
        name: the task's.
    """

    def __init__(self, work: Callable[[], Coroutine[object, object, R]], done: Callable[[R], None], name: str) -> None:
        self._work = work
        self._done = done
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._task: asyncio.Task[R]
        self._start()

    def stop(self) -> None:
        """End it; harmless if its loop was closed, and so nothing of it runs any more."""
        self._stopped = True
        if self._loop.is_closed():
            return
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()

    async def stopped(self) -> None:
        """Wait for its end."""
        if not self._loop.is_closed():
            await asyncio.wait((self._task,))

    def _start(self) -> None:
        self._task = self._loop.create_task(self._work(), name=self._name)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[R]) -> None:
        if self._stopped:
            if not task.cancelled():
                task.exception()  # no one will ask
            return
        try:
            result = task.result()
        except BaseException as error:  # cancelled, or ended by a signal handler's `sys.exit()`
            self._timer = self._loop.call_later(PAUSE, self._start)
            if isinstance(error, Exception):
                logger.exception("%s continues after an internal error", self._name)
        else:
            self._done(result)
