"""An event loop that does not wait: the simulation says when it runs, and what time it is."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import Any, Protocol

CLEAN_UP = 64
"""Cancelled timers that may stay in the heap."""


class Owner(Protocol):
    """The process whose loop it is."""

    def now(self) -> float:
        """Return its monotonic clock, in seconds."""

    def poke(self) -> None:
        """Something came from outside."""

    def tie(self) -> float:
        """Return what makes the order of timers for one moment random, in seconds."""

    def shuffled(self, ready: list[Source]) -> list[Source]:
        """Return the connections in the order in which the selector names them."""

    def broken(self, context: dict[str, Any]) -> None:
        """A callback has raised, or an error was never retrieved."""


class Source(Protocol):
    """A connection that may have news."""

    def ready(self) -> None:
        """Read and write what is possible."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs callbacks in asyncio's own order: those that are ready, first come first served; then what the connections
    bring; then the timers that are due. What becomes ready meanwhile belongs to the next turn.

    Args:
        owner: the process.

    Attributes:
        left: how many callbacks of the turn have not run.
    """

    _ready: Any
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self._owner = owner
        self._thread_id = threading.get_ident()  # it counts as running: nothing but callbacks uses it
        self._sources: list[Source] = []
        self.left: int = 0
        self.set_debug(False)

    def time(self) -> float:
        return self._owner.now()

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(when + self._owner.tie(), callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._owner.broken(context)

    def _write_to_self(self) -> None:
        self._owner.poke()

    def close(self) -> None:
        self._thread_id = None
        super().close()

    def news(self, source: Source) -> None:
        """A connection has something; its owner must be poked."""
        if source not in self._sources:
            self._sources.append(source)

    def due(self) -> float:
        """When it has something to do, by its own clock; infinite for never."""
        if self._ready or self._sources:
            return self.time()
        scheduled = self._scheduled
        while scheduled and scheduled[0].cancelled():
            self._drop(heapq.heappop(scheduled))
        return scheduled[0].when() if scheduled else float("inf")

    def begin_turn(self) -> None:
        """Gather what runs in this turn."""
        ready, scheduled = self._ready, self._scheduled
        if self._sources:
            sources, self._sources = self._sources, []
            for source in self._owner.shuffled(sources):
                ready.append(asyncio.Handle(source.ready, (), self, None))
        if self._timer_cancelled_count > CLEAN_UP:
            for handle in scheduled:
                handle._scheduled = not handle.cancelled()
            scheduled[:] = [handle for handle in scheduled if not handle.cancelled()]
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        now = self.time() + 1e-9
        while scheduled and (scheduled[0].cancelled() or scheduled[0].when() <= now):
            handle = heapq.heappop(scheduled)
            if handle.cancelled():
                self._drop(handle)
            else:
                handle._scheduled = False
                ready.append(handle)
        self.left = len(ready)

    def run_one(self) -> None:
        """Run the turn's next callback."""
        self.left -= 1
        handle = self._ready.popleft()
        if not handle.cancelled():
            handle._run()

    def _drop(self, handle: asyncio.TimerHandle) -> None:
        handle._scheduled = False
        self._timer_cancelled_count -= 1

    def idle(self) -> bool:
        """Whether it will never do anything by itself."""
        return self.due() == float("inf")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make it the running loop of this thread."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._asyncgen_firstiter_hook, finalizer=self._asyncgen_finalizer_hook)
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def discard(self) -> None:
        """Its process is dead: end what is left without a word."""
        with self.running():
            ended: set[asyncio.Task[Any]] = set()
            while left := asyncio.all_tasks(self) - ended:  # what ends may begin more
                ended |= left
                for task in left:
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _end(task.get_coro())
        self._ready.clear()
        self._scheduled.clear()
        self.close()


def _end(coroutine: Any) -> None:
    """Close a coroutine from its innermost on, and what it awaits to clean up: an end does not wait for that. Otherwise
    one inside it stays, and the garbage collector says that it "ignored GeneratorExit".
    """
    while inspect.iscoroutine(coroutine) and coroutine.cr_frame is not None:
        _end(coroutine.cr_await)
        with suppress(Exception, asyncio.CancelledError):
            coroutine.close()
