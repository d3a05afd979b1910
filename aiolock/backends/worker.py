"""A task that nobody but its owner can end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from ..log import Log

R = TypeVar("R")
logger: Log = Log("aiolock.redis")

PAUSE = 0.01
"""Seconds without a task after somebody cancelled it: who cancels until none is left comes to an end, and so does a
loop that is being closed."""


class Worker(Generic[R]):
    """Works in a task, on the running loop. Whoever cancels every other task in the loop ends it for a moment only.

    Args:
        work: what to do; begun anew after a stranger cancelled it, or an error.
        done: told what it returned.
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
        """End it."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()

    async def stopped(self) -> None:
        """Wait for its end."""
        await asyncio.wait((self._task,))

    def _start(self) -> None:
        self._task = self._loop.create_task(self._work(), name=self._name)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[R]) -> None:
        if self._stopped:
            if not task.cancelled():
                task.exception()  # nobody will ask
            return
        try:
            result = task.result()
        except BaseException as error:  # cancelled, or ended by a signal handler's `sys.exit()`
            self._timer = self._loop.call_later(PAUSE, self._start)
            if isinstance(error, Exception):
                logger.exception("%s goes on after an internal error", self._name)
        else:
            self._done(result)
