"""Losing: why, when, and that no user code can stop it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from aiolock import AcquireTimeout, LockManager, LossReason
from aiolock.clock import format_seconds
from aiolock.core.holding.level import Watcher
from aiolock.testing import MemoryBackend

from .test_hold import Lagging
from .world import DEADLINE, TTL, Crew, Holder, expect_loss, lock_keys, runtime_of, settle, state_of


class BrokenHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("the handler is broken")


class BrokenFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise RuntimeError("the filter is broken")


@pytest.fixture(params=["handler", "filter"])
def broken_logging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    handler = BrokenHandler() if request.param == "handler" else logging.NullHandler()
    handler.addFilter(BrokenFilter())
    logger = logging.getLogger("aiolock")
    monkeypatch.setattr(logging, "raiseExceptions", False)  # otherwise it goes to stderr
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


@pytest.mark.usefixtures("broken_logging")
async def test_a_loss_that_cannot_be_logged(locks: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    one, other = (Holder(crew, locks.lock(name, renew=False)) for name in "ab")
    await settle(backend)
    await backend.clock.advance(DEADLINE)
    for holder in (one, other):
        with expect_loss(LossReason.EXPIRED):
            await holder.task
    assert lock_keys(backend) == []


@pytest.mark.usefixtures("broken_logging")
async def test_a_failing_renewal_that_cannot_be_logged(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a") as lease:
        with backend.outage():
            await backend.clock.advance(DEADLINE - 1)
        await settle(backend)
        assert lease.remaining() > DEADLINE - 2


@pytest.mark.usefixtures("broken_logging")
async def test_a_closing_that_cannot_be_logged(backend: MemoryBackend, crew: Crew) -> None:
    async with LockManager(MemoryBackend(backend)) as manager:
        holders = [Holder(crew, manager.lock(name)) for name in "ab"]
        await settle(backend)
    for holder in holders:
        with expect_loss(LossReason.CLOSED):
            await holder.task


class BrokenScope:
    def cancel(self, reason: str) -> None:
        raise RuntimeError("the scope is broken")


async def test_an_error_while_one_block_is_cancelled(
    locks: LockManager, backend: MemoryBackend, crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    """The blocks that share the hold are cancelled, and tasks that wait for the loss hear of it. Kept by hold._call."""
    holder = Holder(crew, locks.lock("a", renew=False))
    lease = await holder.entered
    told = crew.start(lease.wait_lost())
    await settle(backend)
    lease._hold.scopes = (BrokenScope(), *lease._hold.scopes)
    await backend.clock.advance(DEADLINE)
    assert told.done()
    assert await told is LossReason.EXPIRED
    with expect_loss(LossReason.EXPIRED):
        await holder.task
    assert "the scope is broken" in caplog.text


async def test_waiting_for_the_loss_on_a_loop_that_is_closed(locks: LockManager, backend: MemoryBackend) -> None:
    loop = asyncio.new_event_loop()
    gone: asyncio.Future[LossReason | None] = loop.create_future()
    gone.add_done_callback(print)
    loop.close()
    with expect_loss(LossReason.EXPIRED):
        async with locks.lock("a", renew=False) as lease:
            lease._hold.watchers = (Watcher(lease, gone, wants=False),)
            await backend.clock.advance(DEADLINE)
            await asyncio.Event().wait()


@pytest.mark.parametrize("awaits", [False, True])
async def test_a_blocked_loop_with_an_unread_answer(awaits: bool) -> None:
    """The renewal was on its way when the loop stood still. Kept by Hold._patience."""
    backend = Lagging()
    async with LockManager(backend) as locks:
        with expect_loss(LossReason.LOOP_BLOCKED, "for at least"):
            async with locks.lock("a"):
                backend.lag = 0.5
                await backend.clock.advance(TTL / 3 + 0.1)
                backend.clock.jump(TTL)
                backend.lag = 0
                if awaits:
                    await settle(backend)
        assert backend.calls[:2] == ["acquire", "renew"] if awaits else ["acquire"]


async def test_a_server_that_was_silent_before_the_loop_stood_still(locks: LockManager, backend: MemoryBackend) -> None:
    """The renewal was not answered while the loop ran. Kept by Hold._silent."""
    backend = Lagging()
    async with LockManager(backend) as manager:
        with expect_loss(LossReason.UNREACHABLE):
            async with manager.lock("a"):
                backend.lag = TTL
                await backend.clock.advance(TTL / 3 + TTL / 10)
                backend.clock.jump(TTL)
                backend.lag = 0
        await backend.clock.advance(2 * TTL)


async def test_nesting_in_a_fixed_lease_does_not_extend_it(locks: LockManager, backend: MemoryBackend) -> None:
    """Kept by Hold.nesting_ttl_ms; `renew()` does."""
    with expect_loss(LossReason.EXPIRED):
        async with locks.lock("a", renew=False) as lease:
            await backend.clock.advance(10)
            async with locks.lock("a", ttl=300) as inner:
                assert inner.remaining() == pytest.approx(DEADLINE - 10)
                assert state_of(backend, "a").pttl == (TTL - 10) * 1000
            await lease.renew()
            assert lease.remaining() == pytest.approx(DEADLINE)
            async with locks.lock("a", ttl=300):
                await backend.clock.advance(DEADLINE)
                await asyncio.Event().wait()


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "rw_lock"])
async def test_max_hold_counts_from_the_grant(
    kind: str, locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """Not from the last heartbeat of the waiter that was granted the lock. Kept by Hold.__init__: `clock.now()`."""
    here, there = (getattr(manager, kind)("a", max_hold=20.0) for manager in (locks, peer))
    if kind == "rw_lock":
        here, there = here.write, there.write
    lease = await there.acquire()
    holder = Holder(crew, here)
    await backend.clock.advance(0.9)
    await lease.release()
    await settle(backend)
    began = backend.clock.now()
    assert (await holder.entered).remaining() <= 20.0
    await backend.clock.advance(19.999)
    assert not holder.task.done()
    with expect_loss(LossReason.MAX_HOLD):
        await backend.clock.advance(0.001)
        await holder.task
    assert backend.clock.now() == pytest.approx(began + 20.0)


async def test_a_blocking_body_that_outlasts_max_hold(locks: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LossReason.MAX_HOLD):
        async with locks.lock("a", max_hold=20.0) as lease:
            assert lease.remaining() == pytest.approx(20.0)
            backend.clock.jump(20.0)


def test_seconds_are_formatted_for_people() -> None:
    formatted = {0.2225721: "0.223", 30.0: "30", 0.5: "0.5", 2_592_000.0: "2592000", 100: "100", 0.0: "0", 1.10: "1.1"}
    assert {seconds: format_seconds(seconds) for seconds in formatted} == formatted


async def test_no_message_has_seconds_to_the_nanosecond(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    async with peer.lock("a"):
        task = Holder(crew, locks.lock("a"), timeout=0.0333333).task
        await backend.clock.advance(1)
        with pytest.raises(AcquireTimeout, match=r"within 0\.033 s"):
            await task
    slow = LockManager(MemoryBackend(), request_timeout=0.2225721)
    assert "within 0.223 s" in str(runtime_of(slow).unanswered("a", "acquiring"))
