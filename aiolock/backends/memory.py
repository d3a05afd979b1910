"""A store inside the process instead of a server, for tests and single-process programs."""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ..clock import Clock, SystemClock
from ..errors import BackendError, ConfigurationError
from ..scripts import commands, interpreter
from ..scripts.base import Call
from ..scripts.store import Store
from .base import Backend, Wake

R = TypeVar("R")

_named: WeakValueDictionary[str, Store] = WeakValueDictionary()
_warned = False
ONE_PROCESS = "processes=1"
"""What a URL says if there is no other process that its locks would have to exclude."""


def named_store(name: str) -> Store:
    """Return the store that `memory://name` means in this process; `""` is a new one each time.

    Args:
        name: with `?processes=1` behind it if there is no other process, which spares a warning.

    Raises:
        ConfigurationError: something else is behind it.
    """
    global _warned
    name, _, option = name.partition("?")
    if option not in ("", ONE_PROCESS):
        raise ConfigurationError(
            "", f"memory://{name}?{option} is not the URL of a store: there is memory://{name}, and memory://{name}?"
            f"{ONE_PROCESS} to say that no other process wants its locks"
        )  # fmt: skip
    if not option and not _warned:
        _warned = True
        warnings.warn(
            "memory:// does not cross processes: each worker has a lock of its own. If there is one process, say so: "
            f"memory://{name}?{ONE_PROCESS}",
            RuntimeWarning,
            stacklevel=5,
        )
    if not name:
        return Store(_wall_us)
    store = _named.get(name)
    if store is None:
        store = _named[name] = Store(_wall_us)
    return store


def _wall_us() -> int:
    return time.time_ns() // 1000


class MemoryBackend(Backend):
    """Runs the scripts on a `Store`, in the order of the calls, and answers in the loop's next turn.

    Args:
        store: holds the locks; backends that share one see each other's locks.
        clock: the clock that stamps calls.

    Raises:
        ConfigurationError: lupa, which runs the scripts, is not installed.
    """

    db = 0

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        interpreter.load()
        self.store = store
        self.clock: Clock = clock or SystemClock()
        self._wakes: dict[str, Wake] = {}
        self._deliveries: dict[str, Callable[[str], None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        if self._loop is not None and not self._loop.is_closed():
            raise ConfigurationError(
                "", "this backend is already open: give each manager a backend of its own, on the same store"
            )
        self._loop = asyncio.get_running_loop()

    def post(self, call: Call[Any]) -> None:
        if self._loop is None:
            closed = BackendError(call.name, "the manager was closed", transient=True)
            asyncio.get_running_loop().call_soon(call.end, closed)
        else:
            self._answer(call)

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        loop = self._running()

        def deliver(payload: str) -> None:
            call_in(loop, self._deliver, channel, payload)

        self._wakes[channel] = wake
        self._deliveries[channel] = deliver
        with self.store.mutex:
            self.store.subscribe(channel, deliver)
        future: asyncio.Future[None] = loop.create_future()
        loop.call_soon(self._confirm, channel, wake, future)
        return future

    def unsubscribe(self, channel: str) -> None:
        if self._wakes.pop(channel, None) is not None:
            with self.store.mutex:
                self.store.unsubscribe(channel, self._deliveries.pop(channel))

    async def aclose(self) -> None:
        for channel in list(self._wakes):
            self.unsubscribe(channel)
        try:
            await asyncio.sleep(0)
        finally:
            self._loop = None

    def _execute(self, call: Call[R]) -> R | BackendError:
        call.writes += 1
        call.sent_at = self.clock.now()
        reply = commands.answer(self.store, call)
        return reply if isinstance(reply, BackendError) else call.script.decode(reply)

    def _answer(self, call: Call[Any]) -> None:
        self._running().call_soon(call.end, self._execute(call))

    def _deliver(self, channel: str, payload: str) -> None:
        wake = self._wakes.get(channel)
        if wake is not None:
            wake(payload)

    def _confirm(self, channel: str, wake: Wake, future: asyncio.Future[None]) -> None:
        if self._wakes.get(channel) is wake:
            wake(None)
        if not future.done():
            future.set_result(None)

    def _running(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "open() comes first"
        return self._loop


def call_in(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object) -> None:
    """Call back in the loop's next turn; from any thread. Nothing happens if the loop was closed."""
    if asyncio._get_running_loop() is loop:
        loop.call_soon(callback, *args)
    else:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(callback, *args)
