"""Where threads meet the event loop, which runs in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ..core.binding import Process
from ..errors import ConfigurationError
from .call import Call
from .executor import Executor
from .green import check_threads
from .thread_task import ThreadTask

R = TypeVar("R")


class Portal:
    """One event loop in a daemon thread, while its manager is open, and a task on it for each thread that calls.

    anyio's `BlockingPortal` runs every call in a task of its own. Here a task owns what it acquires, so all calls of a
    thread have to run in one.

    Args:
        at_exit: called if the interpreter exits while it is open.

    Attributes:
        leaving: gets the lease of each block that is about to end without an error; must not raise.
    """

    def __init__(self, at_exit: Callable[[], object]) -> None:
        self.leaving: Callable[[Any], object] | None = None
        self._at_exit = at_exit
        self._mutex = threading.RLock()  # a signal's handler may interrupt the thread that has it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[ThreadTask] = set()
        self._local = threading.local()
        self._context: contextvars.Context = contextvars.Context()
        self._process: Process | None = None  # the one that opened it
        self._was_open = False
        self._ready = False
        self._closing = 0  # the thread that does it

    @property
    def here(self) -> bool:
        """Whether its loop runs, in this process."""
        return self._loop is not None and self._process is Process.current

    @property
    def inherited(self) -> bool:
        """Whether its loop runs in the process that this one was forked from."""
        return self._loop is not None and not self.here

    @property
    def ready(self) -> bool:
        """Whether it was opened, in this process: that is over, and it is not closed."""
        return self._ready and self.here

    def open(self, work: Callable[[], Coroutine[object, object, R]]) -> R:
        """Start the loop, and run the coroutine that opens the manager. If that fails, nothing is open.

        Raises:
            ConfigurationError: it is open, or this thread runs an event loop, or is no real thread.
            OSError, RuntimeError: the system has no thread or socket left.
        """
        self._check_process("")
        self._check_thread("")
        check_threads()
        started: Future[None] = Future()
        thread = threading.Thread(target=self._run, args=(started,), name="aiolock", daemon=True)
        try:
            with self._mutex:
                if self._thread is not None:
                    raise ConfigurationError(
                        "", "this manager is open already: open it once, and share it between threads"
                    )
                self._local, self._tasks = threading.local(), set()
                self._was_open, self._ready, self._closing = True, False, 0
                self._process = Process.current
                self._thread = thread
            thread.start()
            started.result()
            atexit.register(self._at_exit)
            result = self.call("", work)
            self._ready = True
            return result
        except BaseException:
            if self._thread is thread:
                self.close()
            raise

    def begin_closing(self) -> bool:
        """Return True in the one thread that has to close what is open.

        Raises:
            ConfigurationError: this thread runs an event loop, or is in another call.
        """
        if not self.here:
            return False
        self._check_thread("")
        with self._mutex:
            if self._closing and not self.closing_here:
                return False
            known: _Thread | None = getattr(self._local, "thread", None)
            if known is not None and known.task.busy:  # a signal's handler
                if self.closing_here:
                    return False
                self._check_idle("", known.task)
            self._closing = threading.get_ident()
        return True

    @property
    def closing_here(self) -> bool:
        """Whether this thread has to close it."""
        return self._closing == threading.get_ident()

    def close(self) -> None:
        """Stop the loop, and wait for its end. Threads that still wait for something get an error."""
        atexit.unregister(self._at_exit)
        with self._mutex:
            self._ready = False
            loop, thread, stopping = self._loop, self._thread, self._stopping
            if loop is None:  # it has not begun, and shall not: see `_serve()`
                self._thread = None
        if thread is None or thread.ident is None:
            return
        if loop is not None and stopping is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(stopping.set)
        thread.join()

    def call(
        self,
        name: str,
        work: Callable[[], Coroutine[object, object, R]],
        unclaimed: Callable[[R], object] | None = None,
        certain: bool = False,
    ) -> R:
        """Run a coroutine in the calling thread's task, and wait for its end.

        If the thread is interrupted meanwhile (by Ctrl-C, or another signal whose handler raises), the coroutine is
        cancelled, and its end awaited. A second interruption ends that wait, too.

        Args:
            name: the lock's, for errors.
            work: creates the coroutine.
            unclaimed: takes back a result that the interrupted thread never saw; called on the loop.
            certain: it is begun in any case, however early the thread is interrupted.

        Raises:
            ConfigurationError: it is not open here, this thread runs an event loop, or is in another call.
        """
        task = self.task(name)
        self._check_idle(name, task)
        call = Call(name, work, unclaimed, certain)
        try:
            task.call = call
            self._post(name, task.loop, task.give, call)
            call.wait()
            if call.error is None:
                task.call = None  # so that it does not keep a lease that the thread drops
                return call.result[0]
        except BaseException:
            call.abandoned = True
            # Signals come in bursts. No loop: the handler of one would raise at its jump back.
            try:
                try:
                    ends = self._withdraw(task, call)
                except BaseException:
                    self._withdraw(task, call)
                    raise
            except BaseException:
                self._withdraw(task, call)
                raise
            if ends:
                call.wait()
            raise
        error = call.failure()
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame, which refers to it

    def _withdraw(self, task: ThreadTask, call: Call[R]) -> bool:
        """The thread was interrupted in `call`: return whether that will end. Harmless if the loop knows it already."""
        try:
            if call.certain:
                self._post(call.name, task.loop, task.give, call)
            self._post(call.name, task.loop, task.abandon, call)
        except ConfigurationError:  # closed meanwhile
            return False
        return True

    def task(self, name: str) -> ThreadTask:
        """Return the calling thread's task.

        Raises:
            ConfigurationError: it is not open here, or this thread runs an event loop.
        """
        self._check(name)
        known: _Thread | None = getattr(self._local, "thread", None)
        if known is None:
            with self._mutex:
                if self._loop is None:
                    raise self._closed(name)
                task = ThreadTask(self._loop, self._forget)
                self._tasks.add(task)
                known = self._local.thread = _Thread(task)
        return known.task

    def post(self, step: Callable[..., object], *args: object) -> None:
        """Run `step` on the loop, if there is one: called where nothing may be raised, or waited for."""
        if self.here:
            with contextlib.suppress(ConfigurationError):
                self._post("", self._loop, step, *args)

    def _post(
        self, name: str, loop: asyncio.AbstractEventLoop | None, step: Callable[..., object], *args: object
    ) -> None:
        with self._mutex:
            if loop is None or loop is not self._loop:  # it may have been opened again
                raise self._closed(name)
            loop.call_soon_threadsafe(step, *args, context=self._context)

    def _run(self, started: Future[None]) -> None:
        thread = threading.current_thread()
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve(thread, started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)
        finally:
            with self._mutex:
                tasks = list(self._tasks) if self._thread is thread else []
                if self._thread is thread:
                    self._loop = self._thread = None
            for task in tasks:
                self._forget(task)

    async def _serve(self, thread: threading.Thread, started: Future[None]) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(Executor())
        with self._mutex:
            if self._thread is not thread:
                return
            self._loop, self._stopping = loop, asyncio.Event()
        started.set_result(None)
        await self._stopping.wait()
        for task in list(self._tasks):
            await task.stop()

    def _forget(self, task: ThreadTask) -> None:
        with self._mutex:
            self._tasks.discard(task)
        call, task.call = task.call, None
        if call is not None:  # it came too late
            call.end(self._closed(call.name))

    def _check(self, name: str) -> None:
        self._check_process(name)
        if self._loop is None:
            raise self._closed(name)
        self._check_thread(name)

    def _check_process(self, name: str) -> None:
        if self.inherited:
            raise ConfigurationError(
                name, f"{_this(name)} was used in a forked child of the process that opened its manager: open one "
                "after the fork (for example in the worker's start-up hook); a ticket moves a lease there"
            )  # fmt: skip

    def _check_thread(self, name: str) -> None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is self._loop:
            what = "on the manager's own event loop, as by an observer: it would wait for itself. Use another thread"
        else:
            what = "in a thread that runs an event loop, which it would block: use aiolock.LockManager there"
        raise ConfigurationError(name, f"{_this(name)} was used {what}")

    def _check_idle(self, name: str, task: ThreadTask) -> None:
        if task.busy:
            raise ConfigurationError(
                name, f"{_this(name)} was used in the middle of another call of this thread, as by a signal's handler: "
                "set a flag there, or raise an exception"
            )  # fmt: skip

    def _closed(self, name: str) -> ConfigurationError:
        when = "after its manager was closed" if self._was_open else "before its manager was opened"
        return ConfigurationError(name, f"{_this(name)} was used {when}: use it inside `with manager:`")


class _Thread:
    """Kept by a thread's own storage, and so collected when that thread ends."""

    _process: Process | None = None  # until it is made: a signal may interrupt that

    def __init__(self, task: ThreadTask) -> None:
        self.task = task
        self._process = Process.current

    def __del__(self) -> None:
        if self._process is Process.current:  # a forked child has lost all threads but one, and none of them has ended
            with contextlib.suppress(RuntimeError):  # the loop has ended before
                self.task.loop.call_soon_threadsafe(self.task.thread_ended)


def _this(name: str) -> str:
    return f"lock {name!r}" if name else "the manager"
