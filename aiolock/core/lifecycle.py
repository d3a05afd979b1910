"""From a manager's entry to its end, whatever ends it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator

import anyio

from ..backends.worker import Worker
from ..errors import AiolockError, BackendError, ConfigurationError, LossReason
from ..log import Log
from .manager_channel import ManagerChannel
from .runtime import Runtime

logger: Log = Log("aiolock.manager")


LAST_TURNS = 10
"""Turns of the loop in which blocks that were cancelled together with the closing task may still leave."""

PAUSE = 1.0
"""Seconds between two attempts to connect, on average, of a manager that was opened without a server."""


class Draining:
    """Waits until only the closing task waits or is inside a guarded block.

    Args:
        runtime: the manager's.
    """

    __slots__ = ("_closer", "_drained", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._closer = asyncio.current_task()
        self._drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """Wait until then; at most `request_timeout`."""
        runtime, drained = self._runtime, self._drained
        self.progress()
        try:
            await runtime.within(drained, runtime.clock.now() + runtime.limits.request_timeout, TimeoutError)
        except TimeoutError:
            logger.warning("closing while guarded blocks still run: their locks stay until they expire")

    async def last_turns(self) -> None:
        """Wait no more, except for what ends by itself now."""
        for _ in range(LAST_TURNS):
            if not self.occupied:
                break
            await asyncio.sleep(0)

    def progress(self) -> None:
        """A task left: it may have been the last one."""
        if not self._drained.done() and not self.occupied:
            self._drained.set_result(None)

    @property
    def occupied(self) -> bool:
        """Whether another task waits, or is inside a guarded block."""
        runtime = self._runtime
        if any(gate.occupied() for gate in runtime.gates.values()):
            return True
        return any(hold.guarded(self._closer) for hold in runtime.holds.values())


class Lifecycle:
    """Opens and closes what a manager has.

    Args:
        runtime: the manager's.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._channel = ManagerChannel(runtime)
        self._entry: asyncio.Timeout | None = None  # while a task enters
        self._left: asyncio.Future[None] | None = None  # done when the entry is over
        self._with_loop: AsyncGenerator[None, None] | None = None
        self._connecting: Worker[None] | None = None  # while it is open without a server

    @property
    def is_open(self) -> bool:
        """See `LockManager.is_open`."""
        binding = self._runtime.binding
        alive = binding.usable and binding.loop is not None and not binding.loop.is_closed()
        return alive and not binding.closing and self._entry is None

    async def enter(self, strict: bool) -> None:
        """See `LockManager.open`."""
        runtime, loop = self._runtime, _running_loop()
        if runtime.binding.bound and not runtime.binding.usable:
            runtime.binding.check("")
        self._forget_dead_loop()
        if runtime.binding.bound:
            if runtime.binding.loop is not loop:
                raise ConfigurationError(
                    "", "this manager is open on another event loop: close it there first, or create one for each loop"
                )
            if runtime.binding.closing:
                raise ConfigurationError(
                    "", "this manager is still closing: open it again when the first `close()` has returned"
                )
            raise ConfigurationError("", "this manager is open already: open it once, and share it between tasks")
        entry = self._entry = asyncio.timeout(None)
        left = self._left = loop.create_future()
        try:
            async with entry:
                await self._open(strict)
        except TimeoutError:
            if not entry.expired():
                raise
            raise ConfigurationError("", "the manager was closed while it was being entered: enter it again") from None
        finally:
            self._entry = self._left = None
            left.set_result(None)

    async def close(self, waits: bool = True) -> None:
        """See `LockManager.close`.

        Args:
            waits: for blocks to end; False if no thread that is inside one runs any more.
        """
        runtime = self._runtime
        if runtime.binding.inherited:
            return
        loop = _running_loop()
        if self._forget_dead_loop():
            await runtime.backend.aclose()
        if not runtime.binding.usable:
            return
        if runtime.binding.loop is not loop:
            raise ConfigurationError(
                "", "this manager is open on another event loop, and stays open there: close it there; from another "
                "thread with asyncio.run_coroutine_threadsafe(manager.close(), loop)"
            )  # fmt: skip
        if runtime.binding.closing:
            return
        runtime.binding.closing = True
        if self._entry is not None:
            assert self._left is not None
            self._entry.reschedule(loop.time())
            await asyncio.wait((self._left,))
            return
        try:
            if self._connecting is not None:
                self._connecting.stop()
                await self._connecting.stopped()
            for gate in list(runtime.gates.values()):
                gate.close()
            with runtime.observers:
                for hold in list(runtime.holds.values()):
                    hold.lose(LossReason.CLOSED)
            await self._drain(waits)
        finally:
            try:
                for hold in list(runtime.holds.values()):
                    hold.home.expel(hold)
                for call in runtime.queue_entries.departures(runtime.binding.id):
                    for part in call.parts or (call,):
                        if runtime.backend.away(part.keys[0]) is None:  # nobody waits for a server to come back
                            runtime.backend.post(part)
                await runtime.backend.aclose()
            finally:
                self._connecting = None
                runtime.unbind()
                if self._with_loop is not None:
                    await self._with_loop.aclose()  # at once: there is nothing left for it to do
                runtime.stop()

    async def _drain(self, waits: bool) -> None:
        runtime = self._runtime
        draining = Draining(runtime)
        runtime.draining = draining.progress
        try:
            if waits:
                await draining.wait()
            else:
                await draining.last_turns()
        except asyncio.CancelledError:
            await draining.last_turns()
            raise
        finally:
            runtime.draining = None

    async def _open(self, strict: bool) -> None:
        binding = self._runtime.binding
        try:
            await self._connect()
        except BaseException as error:
            try:
                if strict or not (isinstance(error, BackendError) and error.transient):
                    raise
                if binding.closing:
                    await asyncio.sleep(0)  # the closing task has this end in the loop's next turn
            except BaseException:
                self._runtime.unbind()
                raise
            binding.awaited = error
            logger.warning("opened without a connection, which is tried again: %s", error)
            self._connecting = Worker(self._keep_connecting, self._connected, "aiolock opening")
        self._with_loop = self._close_with_loop()
        await anext(self._with_loop)

    async def _connect(self) -> None:
        runtime = self._runtime
        runtime.bind()
        anyio.CancelScope()  # the first scope of a process imports modules for 25 ms, and no lock may be held meanwhile
        try:
            await runtime.backend.open(
                timeout=runtime.limits.request_timeout, reconnected=self._verify, needed=self._needed
            )
            runtime.scheduler.start()
            if runtime.waiting.told:
                await self._channel.listen()
            if runtime.binding.closing:
                await asyncio.sleep(0)  # the closing task has this end in the loop's next turn
            runtime.binding.entered()
        except BaseException:
            try:
                await runtime.backend.aclose()
            finally:
                runtime.stop()
            raise

    async def _keep_connecting(self) -> None:
        told = {True}
        while True:
            await asyncio.sleep(random.uniform(0.0, 2 * PAUSE))
            try:
                return await self._connect()
            except AiolockError as error:
                passing = isinstance(error, BackendError) and error.transient
                self._runtime.binding.awaited = error
                tell = logger.debug if passing in told else logger.error
                tell("still not connected: %s", error)
                told.add(passing)

    def _connected(self, _: None) -> None:
        self._connecting = None
        logger.info("connected")

    async def _close_with_loop(self) -> AsyncGenerator[None, None]:
        # asyncio.run() and similar functions end async generators last, when all tasks are done. A manager that is open
        # until then is closed here.
        mine = self._with_loop
        try:
            yield
        finally:
            if self._with_loop is mine:
                self._with_loop = None
                await self.close()

    def _forget_dead_loop(self) -> bool:
        loop = self._runtime.binding.loop
        if not self._runtime.binding.usable or loop is None or not loop.is_closed():
            return False
        self._runtime.unbind()
        self._entry = self._left = self._with_loop = self._connecting = None
        return True

    def _needed(self) -> bool:
        return bool(self._runtime.holds or self._runtime.queue_entries)

    def _verify(self) -> None:
        for hold in list(self._runtime.holds.values()):
            hold.verify()
        self._runtime.queue_entries.verify()


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError(
            "", "no asyncio event loop runs here: aiolock works on asyncio and uvloop, not on trio. "
            "Use asyncio.run(), or anyio.run() with backend='asyncio'"
        ) from None  # fmt: skip
