"""Errors that nobody expects, in each job of the thread: an outage at most, never a hang, and nothing undone."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from aiolock import BackendError, LockManager
from aiolock.backends.sqlite import place
from aiolock.events import Disconnected, Event, Reconnected

ENOUGH = 20.0


@contextmanager
def once(owner: object, name: str, surprise: BaseException) -> Iterator[None]:
    """The next call of a method raises."""
    real: Callable[..., Any] = getattr(owner, name)
    left = [surprise]

    def raises(*args: Any) -> Any:
        if left:
            raise left.pop()
        return real(*args)

    with mock.patch.object(owner, name, raises):
        yield
    assert not left


@pytest.mark.parametrize(
    "surprise",
    [
        KeyError("a surprise"),
        sqlite3.OperationalError("a surprise"),
        MemoryError("a surprise"),
        SystemExit("a surprise"),
    ],
    ids=lambda surprise: type(surprise).__name__,
)
@pytest.mark.parametrize("where", ["_transact", "_use", "_reserve", "_begin", "_guess", "_run"])
async def test_a_request(url: str, where: str, surprise: BaseException) -> None:
    """Who asks is told, and the manager goes on; what is held stays so. Kept by SerialThread._work."""
    events: asyncio.Queue[Event] = asyncio.Queue()

    def observe(event: Event) -> None:
        if isinstance(event, Disconnected | Reconnected):
            events.put_nowait(event)

    async with LockManager(url, ttl=60, observer=observe) as locks, locks.lock("held") as lease:
        engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
        async with asyncio.timeout(ENOUGH):
            swept = asyncio.Event()  # what the first request has left to do goes first
            engine._do(lambda: None, lambda _: swept.set())
            await swept.wait()
            engine._clock.until = 0  # time to reserve more
            with once(engine, where, surprise):
                with pytest.raises(BackendError, match=r"locks\.db: a request on it failed \(.*a surprise"):
                    await locks.lock("a").acquire()
                assert isinstance(await events.get(), Disconnected)
                assert isinstance(await events.get(), Reconnected)
            async with locks.lock("a"):
                lease.ensure()


@pytest.mark.parametrize("where", ["_register", "_listens"])
async def test_a_subscription(url: str, where: str) -> None:
    """Who enters is told at once. Kept by TransactionalBackend._listening."""
    locks = LockManager(url, ttl=60)
    engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
    async with asyncio.timeout(ENOUGH):
        with (
            once(engine, where, KeyError("a surprise")),
            pytest.raises(BackendError, match=r"locks\.db: a request on it failed \('a surprise'\)"),
        ):
            await locks.open()
        async with locks, locks.lock("a"):
            pass


async def test_opening(url: str) -> None:
    """Kept by SerialThread._work."""
    locks = LockManager(url)
    with (
        once(locks._runtime.backend._engine, "_use", KeyError("a surprise")),  # type: ignore[attr-defined]
        pytest.raises(BackendError, match=r"locks\.db: a request on it failed \('a surprise'\)"),
    ):
        await locks.open()


async def test_messages_that_cannot_be_sent(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """What was decided before is decided. Kept by SQLiteEngine._transact."""
    outages: list[Event] = []
    async with (
        LockManager(url, ttl=60, observer=lambda event: outages.append(event)) as locks,
        LockManager(url, ttl=60, liveness=1) as others,
    ):
        lease = await locks.fair_lock("a").acquire()
        waiting = asyncio.ensure_future(others.fair_lock("a").acquire())
        engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
        async with asyncio.timeout(ENOUGH):
            while not (info := await locks.fair_lock("a").info()) or not info.waiters:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            with once(engine._sockets, "send", KeyError("a surprise")):
                await lease.release()
            await (await waiting).release()
    assert "were not sent" in caplog.text
    assert not any(isinstance(event, Disconnected) for event in outages)


async def test_a_mount_whose_name_is_no_utf8(url: str, tmp_path: Path) -> None:
    """Kept by place._mount."""
    mounts = tmp_path / "mounts"
    mounts.write_bytes(b"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / /media/caf\xe9 rw - vfat x rw\n")
    with mock.patch.object(place, "MOUNTS", mounts):
        async with LockManager(url) as locks, locks.lock("a"):
            pass


async def test_closing_needs_no_thread_of_the_loop(url: str) -> None:
    """Those may all have other things to do, for hours. Kept by SerialThread.stop."""
    over, pool = threading.Event(), ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(pool)
    pool.submit(over.wait)
    try:
        async with asyncio.timeout(ENOUGH):
            async with LockManager(url) as locks, locks.lock("a"):
                pass
    finally:
        over.set()
        pool.shutdown()
    assert not any(thread.name == "aiolock sqlite" for thread in threading.enumerate())
