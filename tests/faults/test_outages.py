"""The server cannot be reached for a while: who waits, who is told, and when."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import pytest
import redis.asyncio

from aiolock import AcquireTimeout, BackendError, Lease, Lock, LockLost, LockManager, LossReason
from aiolock.scripts.lock import ACQUIRE
from aiolock.testing.server import RedisServer
from tests.support.proxy import FaultProxy

from .scene import ENOUGH, LATE, NAME, SHORT, STILL, Opener, Server, enter, enter_eventually, key_of, queued, until

HELLO = b"HELLO"


async def test_unreachable_until_the_deadline(proxy: FaultProxy, opened: Opener, server: Server) -> None:
    """Invariant 6: you are told while the server still keeps the key. Kept by Hold.extend: `deadline = expiry -
    margin`.
    """
    locks = await opened(proxy.url, ttl=6.8, margin=STILL, request_timeout=0.5)
    left = -2
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), locks.lock(NAME) as lease:
            proxy.blackhole("requests")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                left = server.state().pttl
                assert lease.remaining() == 0
                raise
    assert left > 0
    assert caught.value.reason is LossReason.UNREACHABLE
    assert "no renewal succeeded" in str(caught.value)
    proxy.heal()
    await until(lambda: not server.held())  # the attempt to release it arrives, or it expires


async def test_a_first_attempt_fails_within_the_request_timeout(proxy: FaultProxy, opened: Opener) -> None:
    """Kept by Waiter.overdue."""
    locks = await opened(proxy.url, request_timeout=0.5)
    proxy.refuse()
    proxy.reset()
    lock = locks.lock(NAME)
    for call in (lock.acquire, lock.try_acquire, lock.info, lock.force_release):
        before = time.monotonic()
        with pytest.raises(BackendError, match=NAME) as caught:
            await call()
        assert caught.value.transient
        assert time.monotonic() - before < 0.5 + LATE
    proxy.heal()
    await enter_eventually(lock)


async def test_a_known_outage_is_the_cause(proxy: FaultProxy, opened: Opener, there: Lock, server: Server) -> None:
    """A waiter is told what the last attempt to connect has found. Kept by RedisBackend._reconnect: `unreachable`."""
    locks = await opened(proxy.url, request_timeout=1.0)
    async with there:
        waiting = asyncio.ensure_future(locks.lock(NAME).acquire(timeout=2.0))
        await until(lambda: any(entry.wait and entry.wait.refusal for entry in locks._runtime.queue_entries.values()))
        proxy.refuse()
        proxy.reset()
        with pytest.raises(BackendError, match=r"got no answer: Redis cannot be reached: .+") as first:
            await locks.lock("another").acquire()
        with pytest.raises(AcquireTimeout, match=r"in the queue; since then Redis cannot be reached: .+") as second:
            await waiting
        for error in (first.value, second.value):
            assert isinstance(error.__cause__, BackendError)
            assert isinstance(error.__cause__.__cause__, redis.exceptions.ConnectionError | OSError)
        assert second.value.holder is not None
        proxy.heal()
        await enter_eventually(locks.lock("another"))
        assert locks._runtime.backend.unreachable is None


@pytest.mark.parametrize("patient", [False, True], ids=["try_acquire", "acquire"])
async def test_a_refused_connection_is_told_at_once(proxy: FaultProxy, opened: Opener, patient: bool) -> None:
    """To all who ask, long before `request_timeout`, and long before their own. Kept by Call.unreachable."""
    locks = await opened(proxy.url, request_timeout=600.0)
    lock = locks.lock(NAME)
    async with lock:
        pass
    proxy.refuse()
    proxy.reset()
    attempts = [lock.acquire(timeout=300.0) if patient else lock.try_acquire() for _ in range(5)]
    calls = [locks.semaphore("s", 2).available(), locks.latch("l", 2).wait(), lock.info(), lock.force_release()]
    async with asyncio.timeout(ENOUGH):
        told = await asyncio.gather(*attempts, *calls, return_exceptions=True)
        for error in (*told, *await asyncio.gather(lock.acquire(), return_exceptions=True)):
            assert isinstance(error, BackendError) or (error is None and not patient)  # or one asks for all
            assert error is None or error.transient
    assert isinstance(told[0], BackendError)
    proxy.heal()
    await enter_eventually(lock)


@pytest.mark.parametrize(
    "ask",
    [
        lambda locks, lease: locks.lock(NAME).info(),
        lambda locks, lease: locks.lock(NAME).is_locked(),
        lambda locks, lease: locks.fair_lock(NAME).info(),
        lambda locks, lease: locks.lock(NAME).request_release(),
        lambda locks, lease: locks.rw_lock(NAME).info(),
        lambda locks, lease: locks.multi_lock(NAME, "b").info(),
        lambda locks, lease: locks.semaphore(NAME, 2).available(),
        lambda locks, lease: locks.semaphore(NAME, 2).set_permits(3),
        lambda locks, lease: locks.latch(NAME, 2).count(),
        lambda locks, lease: locks.latch(NAME, 2).count_down(),
        lambda locks, lease: lease.renew(),
        lambda locks, lease: lease.detach(),
    ],
)
async def test_what_may_run_twice_survives_a_dead_connection(
    proxy: FaultProxy, opened: Opener, ask: Callable[[LockManager, Lease], Awaitable[object]]
) -> None:
    """It is written again, as an acquire is. Kept by Services.ask: `again`."""
    locks = await opened(proxy.url)
    lease = await locks.lock(NAME).acquire()
    cut = proxy.cut()
    async with asyncio.timeout(ENOUGH):
        await ask(locks, lease)
        await cut.hit()
        await lease.release()


async def test_what_was_never_sent_is_never_sent(proxy: FaultProxy, opened: Opener, server: Server) -> None:
    """Attempts that gave up during an outage leave nothing to write after it. Kept by Call.withdraw."""
    locks = await opened(proxy.url, request_timeout=0.5)
    async with locks.lock("warm"):
        pass
    proxy.refuse()
    proxy.reset()
    await proxy.connected(2)
    results = await asyncio.gather(*(locks.lock(f"n{i}").acquire() for i in range(200)), return_exceptions=True)
    assert all(isinstance(result, BackendError) for result in results)
    before = server.scripts_run()
    proxy.heal()
    await enter_eventually(locks.lock("last"))
    assert server.scripts_run() - before <= 4  # of 200 attempts and their undos
    assert not server.held()
    assert not locks._runtime.gates


async def test_entering_a_manager_fails_within_the_request_timeout(proxy: FaultProxy) -> None:
    proxy.refuse()
    for hole in (False, True):
        if hole:
            proxy.heal()
            proxy.blackhole("requests")
        before = time.monotonic()
        with pytest.raises(BackendError) as caught:
            async with LockManager(proxy.url, request_timeout=0.5):
                pytest.fail("entered")
        assert caught.value.transient
        assert time.monotonic() - before < 0.5 + LATE
    proxy.heal()


async def test_a_timeout_of_a_waiter_during_an_outage(proxy: FaultProxy, opened: Opener, there: Lock) -> None:
    """Contention and outage are different errors, and a timeout is kept through both."""
    locks = await opened(proxy.url, request_timeout=0.5)
    async with there:
        waiter = asyncio.ensure_future(locks.lock(NAME).acquire(timeout=0.8))
        await until(lambda: queued(locks))
        proxy.refuse()
        proxy.reset()
        with pytest.raises(AcquireTimeout, match=NAME):
            async with asyncio.timeout(ENOUGH):
                await waiter
        proxy.heal()
    await enter_eventually(locks.lock(NAME))


async def test_a_release_during_an_outage(
    proxy: FaultProxy, opened: Opener, there: Lock, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """The block ends in time with a WARNING, and the release arrives when the connection is back, long before the ttl.

    Kept by Release.observed, and Release.settle, which continues in the background.
    """
    locks = await opened(proxy.url, request_timeout=0.5)
    hole = None
    before = time.monotonic()
    async with asyncio.timeout(ENOUGH), locks.lock(NAME) as lease:
        hole = proxy.blackhole("requests")
    assert time.monotonic() - before < 0.5 + LATE
    assert server.locked()
    warnings = [record for record in caplog.records if "release" in record.message and NAME in record.message]
    assert [record.levelno for record in warnings] == [logging.WARNING]
    waiter = asyncio.create_task(enter(there))
    await until(lambda: server.waiting())
    hole.lift()
    proxy.heal()
    async with asyncio.timeout(ENOUGH):
        assert await waiter > lease.fence
    await until(lambda: not server.held())


async def test_the_body_s_own_error_passes_in_an_outage(proxy: FaultProxy, opened: Opener) -> None:
    locks = await opened(proxy.url, request_timeout=0.5)
    with pytest.raises(KeyError, match="mine"):
        async with asyncio.timeout(ENOUGH), locks.lock(NAME):
            proxy.blackhole("requests")
            raise KeyError("mine")
    proxy.heal()


async def test_a_nested_acquire_in_an_outage_leaves_the_outer_one(
    proxy: FaultProxy, opened: Opener, server: Server
) -> None:
    """Kept by acquisition._nest: `gate.lower`."""
    locks = await opened(proxy.url, request_timeout=0.5)
    async with locks.lock(NAME) as lease:
        proxy.blackhole("requests")
        with pytest.raises(BackendError, match=NAME):
            await locks.lock(NAME).acquire()
        assert lease.depth == 1
        assert not lease.lost
        proxy.heal()
        async with asyncio.timeout(ENOUGH):
            await until(lambda: locks._runtime.backend._session is not None)  # type: ignore[attr-defined]
            async with locks.lock(NAME):
                assert server.depth() == 2
    await until(lambda: not server.held())


# Coming back.


async def test_a_release_that_a_waiter_could_not_hear(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server
) -> None:
    """Redisson #763: released while the waiter's connection was down, it gets in once that is back, not after a ttl.

    Kept by Channels.confirm: `wake(None)` after each resubscription, and QueueEntries.verify.
    """
    lease = await there.acquire()
    waiter = asyncio.create_task(enter(here))
    await until(lambda: server.waiting())
    away = proxy.hold("requests", None, HELLO)
    proxy.reset()
    await away.hit()
    await lease.release()
    assert not server.locked()
    away.lift()
    async with asyncio.timeout(ENOUGH):
        assert await waiter > lease.fence


async def test_a_release_between_the_reconnect_and_the_resubscription(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server
) -> None:
    """Invariant 5. The lock is released after the new connection was greeted and before SUBSCRIBE arrives."""
    lease = await there.acquire()
    waiter = asyncio.create_task(enter(here))
    await until(lambda: server.waiting())
    subscribe = proxy.hold("requests", None, b"SUBSCRIBE")
    proxy.reset()
    await subscribe.hit()
    await lease.release()
    subscribe.lift()
    async with asyncio.timeout(ENOUGH):
        assert await waiter > lease.fence


async def test_a_hundred_waiters_after_a_reconnect_ask_once(
    locks: LockManager, there: Lock, proxy: FaultProxy, server: Server
) -> None:
    """They have one entry, which is refreshed. Kept by QueueEntries.verify."""
    async with there:
        waiters = [asyncio.create_task(enter(locks.lock(NAME))) for _ in range(100)]
        await until(lambda: queued(locks))
        before, subscribed = server.scripts_run(), server.subscriptions()
        proxy.reset()
        await until(lambda: server.subscriptions() > subscribed)
        await enter(locks.lock("another"))
        assert server.scripts_run() - before <= 2 + 2
    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(*waiters)


async def test_every_hold_is_verified_after_a_reconnect(locks: LockManager, proxy: FaultProxy, server: Server) -> None:
    """A loss during an outage is reported at once. Kept by Lifecycle._verify."""
    one = await locks.lock("n1").acquire()
    two = await locks.lock("n2").acquire()
    await locks.lock("n2").acquire()
    away = proxy.hold("requests", None, HELLO)
    proxy.reset()
    await away.hit()
    server.link.delete(key_of("n2"))
    away.lift()
    async with asyncio.timeout(ENOUGH):
        assert await two.wait_lost() is LossReason.DELETED
    assert not one.lost
    await one.release()
    for _ in range(2):
        with pytest.raises(LockLost):
            await locks.lock("n2").release()


async def test_a_revocation_that_the_holder_could_not_hear(locks: LockManager, there: Lock, proxy: FaultProxy) -> None:
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), locks.lock(NAME):
            away = proxy.hold("requests", None, HELLO)
            proxy.reset()
            await away.hit()
            assert await there.force_release()
            away.lift()
            await asyncio.sleep(60)
    assert caught.value.reason is LossReason.DELETED


async def test_connections_that_die_again_and_again(locks: LockManager, proxy: FaultProxy, server: Server) -> None:
    """Work continues, no two are inside at once, nothing is left."""
    inside = 0
    fences: list[int] = []

    async def work(name: str) -> None:
        nonlocal inside
        for _ in range(10):
            async with locks.lock(name) as lease:
                inside += 1
                assert inside == 1
                fences.append(lease.fence)
                await asyncio.sleep(0)
                inside -= 1

    async def strike() -> None:
        for _ in range(8):
            await asyncio.sleep(0.03)
            proxy.reset()

    async with asyncio.timeout(20):
        await asyncio.gather(strike(), *(work(NAME) for _ in range(10)))
    assert fences == sorted(set(fences))
    assert len(fences) == 100
    await until(lambda: not server.held())


# Closing.


@pytest.mark.parametrize("fault", ["refused", "black hole"])
async def test_closing_during_an_outage_is_bounded(
    proxy: FaultProxy, fault: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """H4, and no task stays (the suite checks). Kept by RedisBackend.aclose: `_LINGER`, or Heartbeat."""
    manager = LockManager(proxy.url, request_timeout=0.5, ttl=1.0)
    reasons: list[object] = []

    async def body(name: str) -> None:
        try:
            async with manager.lock(name):
                entered.release()
                await asyncio.sleep(60)
        except LockLost as lost:
            reasons.append(lost.reason)

    entered = asyncio.Semaphore(0)
    async with manager:
        bodies = [asyncio.create_task(body(f"n{i}")) for i in range(3)]
        for _ in bodies:
            await entered.acquire()
        waiter = asyncio.create_task(enter(manager.lock("n0")))
        await asyncio.sleep(0)
        if fault == "refused":
            proxy.refuse()
            proxy.reset()
        else:
            proxy.blackhole("requests")
            proxy.blackhole("replies")
        before = time.monotonic()
    assert time.monotonic() - before < 1.5 + LATE
    await asyncio.gather(*bodies)
    assert reasons == [LossReason.CLOSED] * 3
    with pytest.raises(Exception, match="closed"):
        await waiter
    proxy.heal()
    await until(lambda: not server.held())  # by their ttl at the latest


async def test_closing_says_what_an_unanswered_acquire_may_hold(
    proxy: FaultProxy, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """The server granted it, and cannot be told that nobody wants it. Kept by Release.settle."""
    async with LockManager(proxy.url, request_timeout=0.5, ttl=1.0) as manager:
        lost = proxy.cut(matching=ACQUIRE.sha.encode())
        waiter = asyncio.create_task(enter(manager.lock(NAME)))
        proxy.refuse()
        await lost.hit()
        waiter.cancel()
        await asyncio.wait({waiter})
        assert server.locked()
    assert f"lock '{NAME}' was not released, it expires by itself" in caplog.text


async def test_a_slow_connection(proxy: FaultProxy, opened: Opener, server: Server) -> None:
    """50 ms each way: late, not wrong."""
    proxy.delay("requests", 0.05)
    proxy.delay("replies", 0.05)
    locks = await opened(proxy.url, ttl=SHORT)
    fences = []

    async def work() -> None:
        async with locks.lock(NAME) as lease:
            assert lease.remaining() <= 0.9 * SHORT - 0.1 + 0.01
            fences.append(lease.fence)

    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(*(work() for _ in range(5)))
    assert fences == sorted(set(fences))
    await until(lambda: not server.held())


async def test_a_first_attempt_survives_a_short_outage(here: Lock, proxy: FaultProxy) -> None:
    """It was not refused, only delayed, and by less than request_timeout."""
    away = proxy.hold("requests", None, HELLO)
    proxy.reset()
    await away.hit()
    task = asyncio.create_task(enter(here))
    await asyncio.sleep(0.05)
    assert not task.done()
    away.lift()
    async with asyncio.timeout(ENOUGH):
        assert await task


async def test_reconnecting_closes_what_it_replaces(
    here: Lock, proxy: FaultProxy, raw: redis.asyncio.Redis, redis_server: RedisServer
) -> None:
    """Invariant 7: abandoned connections do not pile up on the server, even if their end never arrived."""
    before = {client["id"] for client in await raw.client_list()}
    for number in range(2, 6):
        held = proxy.hold("requests", 1, ACQUIRE.sha.encode())
        task = asyncio.create_task(enter(here))
        await held.hit()
        proxy.reset(upstream=False)
        await proxy.connected(number)
        await task
        assert len({client["id"] for client in await raw.client_list()} - before) == 1
        held.lift()
