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

from aiolock import LockLost, LockManager, LossReason
from aiolock.testing import MemoryBackend

from . import applications, observing

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
    modules = (sys.modules[__name__], applications, observing)
    found: Prelude = next(getattr(each, name or "nothing") for each in modules if hasattr(each, name or "nothing"))
    return found
