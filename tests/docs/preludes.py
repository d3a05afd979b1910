"""What a block of the documentation has when it begins, and what is checked when it has ended.

A block says `<!-- test: setup=NAME -->` for the async context manager NAME of this module. It yields the block's
namespace; the code after the `yield` checks what the block did. To a whole program it brings nothing.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import pytest

from aiolock import AcquireTimeout, BackendError, LockLost, LockManager, LossReason
from aiolock.testing import MemoryBackend
from tests.support import replication

from . import applications, guarding, observing

Namespace = dict[str, Any]
Prelude = Callable[[str], AbstractAsyncContextManager[Namespace]]


class Handler(Protocol):
    def __call__(self, order: str) -> Awaitable[int]: ...


async def work(*_: object) -> None:
    """Stands for whatever a page's example does inside the lock."""
    await asyncio.sleep(0)


@asynccontextmanager
async def nothing(url: str) -> AsyncIterator[Namespace]:
    """For a block without a directive: it brings everything it needs."""
    yield {}


@asynccontextmanager
async def memory(url: str) -> AsyncIterator[Namespace]:
    """A manager on an in-memory server, and what tests of locks import."""
    backend = MemoryBackend()
    async with LockManager(backend) as manager:
        yield {
            "asyncio": asyncio,
            "backend": backend,
            "import_customers": work,
            "locks": manager,
            "LockLost": LockLost,
            "LockManager": LockManager,
            "LossReason": LossReason,
            "MemoryBackend": MemoryBackend,
            "pytest": pytest,
            "roll_back_half_an_import": work,
        }


@asynccontextmanager
async def orders(url: str) -> AsyncIterator[Namespace]:
    """For a program with `pay(order)`: its answer to success, contention, an outage and losses."""
    reconciled: list[str] = []
    accident: list[Callable[[], object]] = []

    async def charge(order: str) -> None:
        if accident:
            accident.pop()()
            await backend.clock.advance(10.0)

    async def reconcile(order: str) -> None:
        reconciled.append(order)

    async with memory(url) as namespace:
        backend = namespace["backend"]
        program: Namespace = {}
        yield program
        program |= {"locks": namespace["locks"], "charge": charge, "reconcile": reconcile}
        pay: Handler = program["pay"]

        async def answer(order: str) -> int:
            task = asyncio.ensure_future(pay(order))
            await backend.clock.advance(0)
            if not task.done():
                await backend.clock.advance(6.0)  # longer than its own timeout, and than the manager's for a request
            return await task

        assert await answer("free") == 200
        backend.steal("order:busy")
        assert await answer("busy") == 409
        with backend.outage():
            task = asyncio.ensure_future(pay("away"))
            await backend.clock.advance(6.0)
            assert await task in (409, 503)
        assert not reconciled
        accident.append(lambda: backend.steal("order:stolen"))
        assert await answer("stolen") == 503
        accident.append(lambda: backend.clock.jump(40.0))
        assert await answer("blocked") == 500
        assert reconciled == ["stolen", "blocked"]


class Work:
    """What a block does inside the lock: how often it began, and what it raises."""

    def __init__(self, backend: MemoryBackend) -> None:
        self.backend = backend
        self.begun = 0
        self.error: Exception | None = None
        self.accident: Callable[[], object] | None = None

    async def __call__(self, name: str) -> None:
        self.begun += 1
        if self.error is not None:
            raise self.error
        if self.accident is not None:
            self.accident()
            await self.backend.clock.advance(10.0)

    async def times(self, call: Awaitable[Any]) -> tuple[int, Any]:
        """How often the block began during a call, and what that returned or raised."""
        before = self.begun
        task = asyncio.ensure_future(call)
        await self.backend.clock.advance(6.0)  # longer than any timeout
        (result,) = await asyncio.gather(task, return_exceptions=True)
        return self.begun - before, result


OWN_ERRORS = [BackendError("", "refused"), AcquireTimeout("", "of another lock"), ZeroDivisionError()]


@asynccontextmanager
async def fail_open(url: str) -> AsyncIterator[Namespace]:
    """For a program with `refresh(key)`, which runs its block once or never, whatever happens."""
    async with memory(url) as namespace:
        program: Namespace = {}
        yield program
        work = Work(namespace["backend"])
        program |= {"locks": namespace["locks"], "rebuild": work}
        refresh = program["refresh"]
        assert await work.times(refresh("free")) == (1, None)
        work.backend.steal("busy")
        times, error = await work.times(refresh("busy"))
        assert times == 0
        assert isinstance(error, AcquireTimeout)
        with work.backend.outage():
            assert await work.times(refresh("away")) == (1, None)
            for work.error in OWN_ERRORS:
                assert await work.times(refresh("away and broken")) == (1, work.error)
        for work.error in OWN_ERRORS:
            assert await work.times(refresh("broken")) == (1, work.error)
        work.error, work.accident = None, lambda: work.backend.steal("lost")
        times, error = await work.times(refresh("lost"))
        assert (times, type(error)) == (1, LockLost)


@asynccontextmanager
async def replicated(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines `locks` and `pay(order)`: with its replica, and without an answer from it."""
    with replication.pair() as pair, pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDIS_URL", pair.url)
        namespace: Namespace = {}
        yield namespace
        pay: Handler = namespace["pay"]
        async with namespace["locks"]:
            assert any([await pay("42") for _ in range(20)])  # a machine may be slow once
            pair.replica.freeze()
            assert await pay("42") is None
            pair.replica.thaw()


@asynccontextmanager
async def memory_url(url: str) -> AsyncIterator[Namespace]:
    """The setting that a test suite would use."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "memory.// does not cross processes", RuntimeWarning)
        patch.setenv("LOCKS", "memory://")
        namespace: Namespace = {}
        yield namespace
        async with namespace["locks"] as manager, manager.lock("order:42") as lease:
            assert lease.fence > 0


def prelude(name: str) -> Prelude:
    """The prelude of that name."""
    modules = (sys.modules[__name__], applications, guarding, observing)
    found: Prelude = next(getattr(each, name or "nothing") for each in modules if hasattr(each, name or "nothing"))
    return found
