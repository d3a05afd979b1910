"""What becomes of requests that are not answered when a manager closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiolock import BackendError
from aiolock.backends.transactional import TransactionalBackend
from aiolock.backends.transactional.engine import Unavailable
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import Keys
from aiolock.scripts.lock import LockCalls
from aiolock.testing.clock import VirtualClock

from .server import FakeEngine, FakeServer

KEYS = Keys("aiolock")
KEY = KEYS.of("lock", "a").lock


class OpenEngine(FakeEngine):
    """A store that can be opened."""

    async def open(self, deliver: Callable[[str, str | None], None]) -> None:
        self._deliver = deliver

    async def aclose(self) -> None:
        await self.stop()


def away() -> Unavailable:
    return Unavailable(BackendError("", "gone", transient=True), ran=True)


@pytest.fixture
def engine() -> OpenEngine:
    return OpenEngine(FakeServer(), 1, VirtualClock())


@pytest.fixture
async def backend(engine: OpenEngine, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TransactionalBackend]:
    """It would try again in an hour."""
    monkeypatch.setattr("aiolock.backends.transactional.backend.backoff", lambda *_: 3600.0)
    backend = TransactionalBackend(engine, engine._clock)
    await backend.open(timeout=5, reconnected=lambda: None)
    yield backend
    await backend.aclose()


def posted(backend: TransactionalBackend) -> tuple[Call[Any], list[Any]]:
    """A request that is repeated, and what became of it."""
    call = LockCalls(KEYS, "a", 3000).acquire(Bid("m:0", 30_000, 0, "here"))
    became: list[Any] = []
    call.unanswered, call.settle = lambda: True, became.append
    backend.post(call)
    return call, became


async def pausing(backend: TransactionalBackend) -> None:
    """Wait until it is between two attempts."""
    async with asyncio.timeout(5):
        while backend.unreachable is None:  # noqa: ASYNC110 - nothing here sets an event
            await asyncio.sleep(0)


async def test_a_pause_between_two_attempts(backend: TransactionalBackend, engine: OpenEngine) -> None:
    """What waits gets one more attempt, or a lock would stay taken until its ttl. Kept by
    TransactionalBackend._finish.
    """
    engine.fails = [away()]
    _, became = posted(backend)
    await pausing(backend)
    await asyncio.wait_for(backend.aclose(), 10)
    assert "Granted" in repr(became)
    assert KEY in engine.server.rows


async def test_an_attempt_that_fails(backend: TransactionalBackend, engine: OpenEngine) -> None:
    """Closing waits for it, and for one more."""
    engine.fails = [away(), None]
    _, became = posted(backend)
    await asyncio.wait_for(backend.aclose(), 10)
    assert "Granted" in repr(became)


async def test_it_waits_for_no_third_attempt(backend: TransactionalBackend, engine: OpenEngine) -> None:
    engine.fails = [away(), away(), None]
    _, became = posted(backend)
    await pausing(backend)
    await asyncio.wait_for(backend.aclose(), 10)
    assert isinstance(became[0], BackendError)
    assert len(engine.asked) == 2


async def test_what_was_withdrawn_is_not_waited_for(backend: TransactionalBackend, engine: OpenEngine) -> None:
    engine.fails = [away()]
    call, became = posted(backend)
    await pausing(backend)
    call.withdrawn = True
    await asyncio.wait_for(backend.aclose(), 10)
    assert isinstance(became[0], BackendError)
    assert len(engine.asked) == 1
