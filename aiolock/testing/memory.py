"""The memory backend with a virtual clock and faults on demand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from ..backends.memory import MemoryBackend as PlainMemoryBackend
from ..errors import AiolockError, BackendError, ConfigurationError
from ..primitives.kinds import FULL
from ..scripts.base import Call
from ..scripts.bid import Bid
from ..scripts.keys import DIRTY_MS, Keys
from ..scripts.lock import LockCalls
from ..scripts.outcomes import Granted, Standing
from ..scripts.queue import QueueCalls
from ..scripts.queue.records import Holder, read
from ..scripts.store import Store
from .clock import VirtualClock

R = TypeVar("R")

Lost = Literal["request", "reply"]
Kind = Literal["lock", "rw", "semaphore"]
CAPACITY = {"rw": FULL, "semaphore": 1}
"""What a thief takes of a free name."""
THIEF = "thief:"
HOUR_MS = 3_600_000


class MemoryBackend(PlainMemoryBackend):
    """A server for tests: `LockManager(MemoryBackend())`.

    You change locks by name, you move time with `backend.clock`, and nothing happens by itself. All of that works in
    any thread: with `aiolock.sync`, or a `TestClient`, whose event loop has a thread of its own.

    Args:
        peer: a backend whose store and clock this one shares, as another process would.
        namespace: the managers' namespace.
        clock: its time; without one, a clock that stands still until you advance it. (The clock of the pytest fixture
            `aiolock_memory` runs, unless the test asks for `aiolock_clock`.)

    Example:
        async with LockManager(backend := MemoryBackend()) as locks:
            async with locks.lock("order:42") as lease:
                backend.steal("order:42")
                await backend.clock.advance(30)
    """

    clock: VirtualClock

    def __init__(
        self, peer: MemoryBackend | None = None, *, namespace: str = "aiolock", clock: VirtualClock | None = None
    ) -> None:
        if clock is None:
            clock = VirtualClock() if peer is None else peer.clock
        elif peer is not None:
            raise ConfigurationError("", "a backend with peer= uses the peer's clock: leave out clock=")
        super().__init__(Store(clock.wall_us) if peer is None else peer.store, clock)
        self.calls: list[str] = []
        """Names of the scripts that ran, in order; clear it when you like."""
        self._keys = Keys(namespace)
        self._faults: deque[Lost] = deque()
        self._away = self._silent = False
        self._backlog: list[Call[Any]] = []
        self._reconnected: Callable[[], None] | None = None

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        await super().open(timeout=timeout, reconnected=reconnected, needed=needed)
        self._reconnected = reconnected

    async def aclose(self) -> None:
        backlog, self._backlog = self._backlog, []
        for call in backlog:
            call.end(BackendError(call.name, "the manager was closed", transient=True))
        await super().aclose()

    @property
    def unreachable(self) -> AiolockError | None:
        """Why the server cannot be reached, during an `outage()`; else None."""
        if self._away and not self._silent:
            return BackendError("", "the server is unreachable, in MemoryBackend.outage()", transient=True)
        return None

    def post(self, call: Call[Any]) -> None:
        reconnecting = bool(self._backlog)
        if self._loop is None or not (self._away or self._faults or reconnecting):
            super().post(call)
            return
        self._backlog.append(call)
        if self._away:
            self._running().call_soon(self._tell_away, call)
        elif not reconnecting:
            self._lose_connection(self._faults.popleft())

    # What happens to locks.

    def steal(self, name: str, kind: Kind = "lock") -> int:
        """Take `name` in the name of another owner, whoever held it: as after an expiry that the holder did not notice.

        Args:
            name: the lock's, or a multi lock's part.
            kind: the primitive. Every hold of a read-write lock or semaphore is taken.

        Returns:
            The thief's fence. No one is notified; the holder finds out at its next renewal.
        """
        calls, stolen = self._calls(name, kind), 0
        with self.store.mutex:
            for number, (owner, fence) in enumerate(self._holders(name, kind).items(), 1):
                moved = self._execute(calls.resume(owner, fence, Bid(f"{THIEF}{number}", HOUR_MS, 0, "a thief"), False))
                assert isinstance(moved, Granted)
                stolen = moved.fence
            if not stolen:
                grant = self._execute(calls.acquire(Bid(f"{THIEF}0", HOUR_MS, 0, "a thief")))
                assert isinstance(grant, Granted)
                stolen = grant.fence
        return stolen

    def give_back(self, name: str, kind: Kind = "lock") -> None:
        """Release the thief's hold of `name`; waiters are notified."""
        calls = self._calls(name, kind)
        with self.store.mutex:
            for owner in self._holders(name, kind):
                if owner.startswith(THIEF):
                    self._execute(calls.release(owner, HOUR_MS, 0, "clean", False))

    def expire(self, name: str, kind: Kind = "lock") -> None:
        """Let every hold of `name` expire now. No one is notified, as on a real server."""
        with self.store.mutex:
            if kind == "lock":
                key = self._keys.of(kind, name).lock
                if self._holders(name, kind):
                    for field in ("owner", "depth", "before", "expires", "process"):
                        self.store.hdel(key, field)
                    self.store.hset(key, {"abandoned": "1"})
                    self.store.pexpire(key, DIRTY_MS)
                return
            _, order = self._keys.of(kind, name).queue
            for owner in self._holders(name, kind):
                self.store.zadd(order, 0, owner)

    def _holders(self, name: str, kind: Kind) -> dict[str, int]:
        """Return who holds it, and with which fence."""
        if kind == "lock":
            standing = super()._execute(self._calls(name, kind).info())
            assert isinstance(standing, Standing)
            return {standing.held.owner: standing.held.fence} if standing.held else {}
        records = self.store.hgetall(self._keys.of(kind, name).state)
        return {owner: int(held.fence) for owner, text in records.items() if isinstance(held := read(text), Holder)}

    def _calls(self, name: str, kind: Kind) -> LockCalls | QueueCalls:
        if kind == "lock":
            return LockCalls(self._keys, name, HOUR_MS)
        full = CAPACITY[kind]
        return QueueCalls(self._keys, kind, name, capacity=full, weight=full, mints=True, liveness_ms=HOUR_MS)

    def flush(self) -> None:
        """Delete every key: FLUSHALL, or a restart without persistence."""
        with self.store.mutex:
            self.store.flush()

    # What happens to the connection.

    @contextmanager
    def outage(self, silent: bool = False) -> Iterator[None]:
        """Make the server unreachable inside the block; at its end the connection is back.

        Args:
            silent: the server refuses no connection, but answers nothing: an attempt fails only when its time is over.
        """
        self._away, self._silent = True, silent
        try:
            yield
        finally:
            self._away = False
            self._on_loop(self._reconnect)

    def fail_next(self, lost: Lost = "reply") -> None:
        """Make the connection die on the next call.

        Args:
            lost: `"reply"`: the server executes the call, but its answer is lost; `"request"`: the server never sees
                it.
        """
        self._faults.append(lost)

    def _lose_connection(self, lost: Lost) -> None:
        (call,) = self._backlog
        if lost == "reply":
            self._execute(call)
        else:
            call.writes += 1
            call.sent_at = self.clock.now()
        self._backlog = []
        if call.unanswered():
            self._backlog.insert(0, call)
        else:
            error = BackendError(call.name, f"the connection died before {call.name!r} was answered", transient=True)
            call.end(error)
        self._running().call_soon(self._reconnect)

    def _tell_away(self, call: Call[Any]) -> None:
        if (known := self.unreachable) is not None:
            call.unreachable(known)

    def _reconnect(self) -> None:
        if self._away or self._loop is None:
            return
        backlog, self._backlog = self._backlog, []
        for call in backlog:
            if not call.withdrawn:
                self._answer(call)
        if self._reconnected is not None:
            self._reconnected()
        for wake in list(self._wakes.values()):
            self._running().call_soon(wake, None)

    def _on_loop(self, change: Callable[[], None]) -> None:
        """Return when `change` was done, in the thread of the loop."""
        loop = self._loop
        if loop is None or not loop.is_running() or asyncio._get_running_loop() is loop:
            change()
            return
        done: Future[None] = Future()

        def run() -> None:
            try:
                change()
            finally:
                done.set_result(None)

        loop.call_soon_threadsafe(run)
        done.result()

    def _execute(self, call: Call[R]) -> R | BackendError:
        self.calls.append(call.script.name)
        return super()._execute(call)
