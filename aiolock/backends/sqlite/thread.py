"""A thread that does one thing after the other, for a loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any


class SerialThread:
    """Does jobs in their order, and tells the loop what came of each. It dies with the process, whatever it does.

    Args:
        name: the thread's.
        failed: makes of what a job raised, whatever that is, what its `done` gets.
    """

    def __init__(self, name: str, failed: Callable[[BaseException], Any]) -> None:
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], object]] | None] = SimpleQueue()
        self._ended: Future[None] = Future()
        self._ended.set_running_or_notify_cancel()  # so that nobody who gives up waiting cancels it for the others
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(self, job: Callable[[], Any], done: Callable[[Any], object]) -> None:
        """Do `job` after all earlier ones; `done` gets what it returned, or what `failed` made of its error."""
        self._jobs.put((job, done))

    async def stop(self) -> None:
        """End after the last job, and wait for that; on any loop."""
        self._jobs.put(None)
        await asyncio.wrap_future(self._ended)  # not in a thread of the loop's: those may have other things to do
        self._thread.join()

    def _work(self) -> None:
        while (task := self._jobs.get()) is not None:
            job, done = task
            try:
                result = job()
            except BaseException as error:
                result = self._failed(error)
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                self._loop.call_soon_threadsafe(done, result)
            del task, job, done, result  # nothing is kept until the next job comes
        self._ended.set_result(None)
