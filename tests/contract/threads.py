"""The contract in threads: the asynchronous names over `aiolock.sync`, where each task has a thread of its own.

A task that waits is the thread that waits; a task that is cancelled has a thread that Ctrl-C interrupts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, cast
from weakref import WeakKeyDictionary

from aiolock import ConfigurationError, LockManager, sync
from aiolock.sync.base import Primitive
from aiolock.sync.portal import Portal
from aiolock.sync.thread_task import ThreadTask

from .places import RedisPlace

MAKES = ("lock", "fair_lock", "multi_lock", "rw_lock", "semaphore", "latch")
LOOKS = ("remaining", "ensure")
"""What does not wait."""


class ThreadPlace(RedisPlace):
    """A real server, on which all managers are for threads."""

    def manager(self, **options: Any) -> LockManager:
        return cast(LockManager, Front(sync.LockManager(self.url, **self.options, **options)))


class Threads(WeakKeyDictionary[asyncio.Task[Any], ThreadPoolExecutor]):
    """The thread of each task; it ends with that."""

    def of(self, task: asyncio.Task[Any]) -> ThreadPoolExecutor:
        thread = self.get(task)
        if thread is None:
            self[task] = thread = ThreadPoolExecutor(1)
            task.add_done_callback(lambda _: thread.shutdown(wait=False))
        return thread


threads = Threads()


class Front:
    """Something of `aiolock.sync`, with the names of the asynchronous side.

    Args:
        thing: what it is.
    """

    def __init__(self, thing: Any) -> None:
        self._thing = thing
        self._open: dict[asyncio.Task[Any] | None, list[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "_hold":
            return _Hold(self._thing)
        found = getattr(self._thing if hasattr(self._thing, name) else self._thing._core, name)
        if name in MAKES:
            return lambda *args, **options: Front(found(*args, **_for_threads(options)))
        if isinstance(found, Primitive):
            return Front(found)
        if not callable(found) or name in LOOKS or name.startswith("_"):
            return found
        return lambda *args, **options: Doing(self._portal, lambda: found(*args, **options), name == "release")

    def __repr__(self) -> str:
        return repr(self._thing)

    @property
    def _portal(self) -> Portal:
        return cast(Portal, getattr(self._thing, "read", self._thing)._portal)

    async def __aenter__(self) -> Any:
        if isinstance(self._thing, sync.LockManager):
            return await Doing(self._portal, self._thing.open)
        block = contextmanager(_block)(self._thing)
        entered = await Doing(self._portal, block.__enter__)
        self._open.setdefault(asyncio.current_task(), []).append(block)
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._thing, sync.LockManager):
            await Doing(self._portal, self._thing.close)
            return
        blocks = self._open[asyncio.current_task()]
        await Doing(self._portal, lambda: blocks.pop().__exit__(kind, error, trace))


def _block(thing: Any) -> Iterator[Any]:
    with thing as entered:
        yield entered


class _Hold:
    """A lease's hold, which is the other thread's: what a test does to it is done there."""

    def __init__(self, lease: sync.Lease) -> None:
        self._lease = lease

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lease._core._hold, name)

    def verify(self) -> None:
        self._lease._portal.post(self._lease._core._hold.verify)


class Doing(Coroutine[Any, Any, Any]):
    """A call, carried out by the running task's thread when it is awaited, or at once.

    Args:
        portal: of its manager.
        do: what blocks.
        now: at once.
    """

    def __init__(self, portal: Portal, do: Callable[[], Any], now: bool = False) -> None:
        self._portal = portal
        self._do = do
        self._host: ThreadTask | None = None
        self._begun = self._begin() if now else None
        self._waiting: Coroutine[Any, Any, Any] | None = None

    def _begin(self) -> Future[Any]:
        task = asyncio.current_task()
        assert task is not None
        return threads.of(task).submit(self._there)

    def _there(self) -> Any:
        with suppress(ConfigurationError):  # it is being opened
            self._host = self._portal.task("")
        return self._do()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    def send(self, value: Any) -> Any:
        if self._waiting is None:
            self._waiting = self._wait()
        return self._waiting.send(value)

    def throw(self, *error: Any) -> Any:
        if self._waiting is None:
            raise error[0]
        return self._waiting.throw(*error)

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.close()

    async def _wait(self) -> Any:
        doing = self._begun or self._begin()
        done = asyncio.wrap_future(doing)
        try:
            result = await asyncio.shield(done)
        except asyncio.CancelledError:
            await self._interrupt(doing)
            with suppress(BaseException):
                await done
            raise
        return Front(result) if isinstance(result, sync.Lease | sync.LockManager) else result

    async def _interrupt(self, doing: Future[Any]) -> None:
        """Do on the loop what Ctrl-C in the thread does, and wait as that does."""
        while not doing.done():
            if self._host is not None and self._host.busy:
                self._portal.post(self._host.abandon, self._host.call)
            await asyncio.sleep(0.001)
        if doing.exception() is None and isinstance(doing.result(), sync.Lease):
            self._portal.post(doing.result()._take_back)

    async def __aenter__(self) -> Any:
        self._lease = await self
        if self._lease is not None:
            await self._lease.__aenter__()
        return self._lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(kind, error, trace)


def _for_threads(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "cancel_on_loss"}
