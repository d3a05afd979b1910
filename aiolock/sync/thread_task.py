"""The task that stands for a thread on the event loop: what it acquires, the thread owns."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from .call import Call


class ThreadTask:
    """Carries out the calls of one thread, one after the other. The thread creates it, and it has its name.

    The core keeps what each task holds. One task for each thread makes the threads owners: reentrancy, `release()`, and
    what happens to the leases of a thread that ends, follow from that.

    Args:
        loop: where it runs.
        ended: called when it has come to its end.

    Attributes:
        loop: where it runs.
        call: the last one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[ThreadTask], object]) -> None:
        self.call: Call[Any] | None = None
        self.loop: asyncio.AbstractEventLoop = loop
        self._name = threading.current_thread().name
        self._ended = ended
        self._calls: deque[Call[Any]] = deque()
        self._current: Call[Any] | None = None
        self._idle: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._blocks = 0
        self._last = False  # there will be no more calls
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Whether its thread waits for a call."""
        call = self.call
        return call is not None and not (call.over or call.abandoned)

    # The rest is called on the loop.

    def give(self, call: Call[Any]) -> None:
        """Carry out `call`, when those before it are over."""
        if call.given:
            return
        call.given = True
        self._calls.append(call)
        if self._task is None:
            self._task = self.loop.create_task(self._serve(), name=self._name)
            self._task.add_done_callback(self._end)
        else:
            self._wake()

    def abandon(self, call: Call[Any]) -> None:
        """The thread was interrupted: cancel its call, or take back what it did."""
        call.abandon()
        if call is self._current and self._task is not None:
            self._task.cancel()
        elif not call.over and not call.certain:
            call.given = True
            call.end(asyncio.CancelledError())

    def entered(self) -> None:
        """The thread has entered a block. Until that is left the task does not end, though the thread may: another one
        can leave it, if it runs the generator in which the block is.
        """
        self._blocks += 1

    def left(self) -> None:
        """A block of the thread was left, in any thread."""
        self._blocks -= 1
        self._wake()

    def thread_ended(self) -> None:
        """There will be no more calls."""
        self._last = True
        if self._task is None:
            self._ended(self)
        self._wake()

    async def stop(self) -> None:
        """End now: the manager is closed."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def _serve(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while not self._stopped and (self._calls or self._blocks or not self._last):
            if not self._calls:
                self._idle = self.loop.create_future()
                await self._idle
                continue
            call = self._current = self._calls.popleft()
            try:
                if not call.over:
                    await call.run()
            except asyncio.CancelledError as cancelled:
                if self._stopped:
                    raise
                call.end(cancelled)
            except Exception as error:
                # Without this frame: `frame.clear()`, which Celery and unittest call for errors, would end the task.
                begins = error.__traceback__
                call.end(error.with_traceback(None if begins is None else begins.tb_next))
                del begins
            finally:
                self._current = None
            while task.cancelling() and not self._stopped:
                task.uncancel()
            del call

    def _end(self, task: asyncio.Task[None]) -> None:
        self._ended(self)
