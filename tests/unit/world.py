"""A process or two on one store, and what must be true of them when all tasks have ended."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import pytest

from aiolock import BackendError, Lease, LockLost, LockManager, LossReason
from aiolock.backends.base import Wake
from aiolock.core.runtime import Runtime
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from aiolock.testing.clock import TURNS
from tests.support import locks

R = TypeVar("R")
T = TypeVar("T")
TTL = 30.0
MARGIN = 3.0
DEADLINE = TTL - MARGIN
LIVENESS = 3.0
BEAT = LIVENESS / 3
"""Seconds between two heartbeats of a waiter."""


class Deaf(MemoryBackend):
    """Loses what is published while `deaf`."""

    deaf = False

    def _deliver(self, channel: str, payload: str) -> None:
        if not self.deaf:
            super()._deliver(channel, payload)


class SlowBackend(MemoryBackend):
    """Takes several turns of the loop to write, execute and answer, so that there is a moment between any two steps.

    Args:
        peer: a backend whose store and clock this one shares.
        turns: how many between the write and the execution, and again until the answer.
    """

    def __init__(self, peer: MemoryBackend | None = None, turns: int = 2) -> None:
        super().__init__(peer)
        self.turns = turns
        self._flights: list[_Flight] = []

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        for _ in range(self.turns):
            await asyncio.sleep(0)
        await super().open(timeout=timeout, reconnected=reconnected, needed=needed)

    def post(self, call: Call[Any]) -> None:
        if self._loop is None or self._away or self._faults or self._backlog:
            super().post(call)
            return
        flight = _Flight(call)
        self._flights.append(flight)
        self._running().call_soon(self._step, flight, -1)

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        confirmed: asyncio.Future[None] = self._running().create_future()
        later(2 * self.turns, self._subscribe, channel, wake, confirmed)
        self._wakes[channel] = wake
        return confirmed

    def _subscribe(self, channel: str, wake: Wake, confirmed: asyncio.Future[None]) -> None:
        if self._wakes.get(channel) is wake and self._loop is not None:
            super().subscribe(channel, wake)
            if not confirmed.done():
                confirmed.set_result(None)

    def unsubscribe(self, channel: str) -> None:
        if channel in self._deliveries:
            super().unsubscribe(channel)
        self._wakes.pop(channel, None)

    def _deliver(self, channel: str, payload: str) -> None:
        # A message comes after the answers that were on their way before it: they share the connection.
        later(self.turns, super()._deliver, channel, payload)

    async def aclose(self) -> None:
        try:
            for _ in range(2 * self.turns + 2):
                await asyncio.sleep(0)
        finally:
            for flight in self._flights:
                self._fly(flight)
            left, self._flights = self._flights, []
            for flight in left:
                flight.call.end(BackendError(flight.call.name, "the manager was closed", True))
            await super().aclose()

    def die(self, lost: Literal["request", "reply"]) -> None:
        """Lose the connection under everything that was written and not answered; it is back at once."""
        left, self._flights = self._flights, []
        for flight in left:
            if lost == "reply" and flight.call.writes:
                self._fly(flight)
        for flight in left:
            if not flight.call.writes or flight.call.unanswered():
                again = _Flight(flight.call)
                self._flights.append(again)
                self._running().call_soon(self._step, again, -1)
            else:
                flight.call.end(BackendError(flight.call.name, "the connection died", True))
        self._reconnect()

    def _step(self, flight: _Flight, turn: int) -> None:
        if flight not in self._flights:
            return
        if turn < 0:
            if flight.call.withdrawn:
                self._flights.remove(flight)
                return
            flight.call.writes += 1
            flight.call.sent_at = self.clock.now()
        elif turn == self.turns:
            self._fly(flight)
        elif turn == 2 * self.turns:
            self._flights.remove(flight)
            assert flight.result is not None
            flight.call.end(flight.result[0])
            return
        self._running().call_soon(self._step, flight, turn + 1)

    def _fly(self, flight: _Flight) -> None:
        """Execute it, if it was not executed yet and not withdrawn."""
        if flight.result is None and not flight.call.withdrawn:
            call = flight.call
            writes, sent_at = max(1, call.writes), call.sent_at
            flight.result = (self._execute(call),)
            call.writes, call.sent_at = writes, sent_at


class _Flight:
    """A call on its way; `result` once it was executed."""

    def __init__(self, call: Call[Any]) -> None:
        self.call = call
        self.result: tuple[Any] | None = None


async def turns(count: int) -> None:
    """Wait for this many turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def later(turns: int, callback: Callable[..., None], *args: Any) -> None:
    """Call back after this many turns of the loop."""
    loop = asyncio.get_running_loop()
    if turns:
        loop.call_soon(later, turns - 1, callback, *args)
    else:
        callback(*args)


def step_wall(backend: MemoryBackend, seconds: float) -> None:
    """Set the server's wall clock forward, or back; no client's own clock notices."""
    before = backend.store.wall_us
    backend.store.wall_us = lambda: before() + round(seconds * 10**6)


def runtime_of(manager: LockManager) -> Runtime:
    """The manager's internals, which tests may look at."""
    return manager._runtime


async def settle(backend: MemoryBackend) -> None:
    """Let everything happen that can happen without time passing."""
    loop = asyncio.get_running_loop()
    ready = getattr(loop, "_ready", None)  # what the next turn will call; uvloop does not show it
    if ready is None:
        await backend.clock.advance(0)
        return
    for _ in range(TURNS):
        if not ready:
            break
        await asyncio.sleep(0)


def lock_keys(backend: MemoryBackend) -> list[str]:
    """The keys of what is held on the server, of the queues that are not empty, and of what never expires."""
    return sorted({*locks.held_names(backend), *locks.all_waiting(backend), *locks.unlimited(backend)})


def tombstones(backend: MemoryBackend) -> list[str]:
    """The owners that may never come back."""
    return locks.tombstones(backend)


def state_of(backend: MemoryBackend, name: str) -> locks.LockState:
    """What the server keeps of lock `name`."""
    return locks.state(backend, name)


def assert_empty(manager: LockManager) -> None:
    """Check that nothing of any name is left in this process."""
    runtime = runtime_of(manager)
    assert (runtime.gates, runtime.holds, runtime.queue_entries) == ({}, {}, {})


@contextmanager
def expect_loss(reason: LossReason, saying: str = "") -> Iterator[None]:
    """Check that the block ends with `LockLost` for `reason`."""
    with pytest.raises(LockLost, match=re.escape(saying or reason.name)) as caught:
        yield
    assert caught.value.reason is reason


class Crew:
    """Tasks that a test started; they end with it."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    async def dismiss(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Holder:
    """A task inside `async with` on a lock until you tell it to leave."""

    def __init__(self, crew: Crew, lock: Any, **options: Any) -> None:
        self.entered: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        self.leave = asyncio.Event()
        self.task = crew.start(self._hold(lock, options))

    async def _hold(self, lock: Any, options: dict[str, Any]) -> None:
        async with lock.acquire(**options) as lease:
            self.entered.set_result(lease)
            await self.leave.wait()

    async def end(self) -> None:
        self.leave.set()
        await self.task


async def queue_up(crew: Crew, lock: Any, count: int, backend: MemoryBackend, **options: Any) -> list[Holder]:
    """This many tasks, each behind the one before."""
    holders = []
    for _ in range(count):
        holders.append(Holder(crew, lock, **options))
        await settle(backend)
    return holders


def inside(holders: list[Holder]) -> list[bool]:
    """The tasks that have entered."""
    return [holder.entered.done() for holder in holders]
