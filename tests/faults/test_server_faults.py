"""What happens to the server itself: killed, restarted empty, frozen, paused, flushed, full, read-only, busy."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from aiolock import BackendError, Lease, LockLost, LossReason
from aiolock.testing.server import RedisServer
from tests.support import redis_cli

from .scene import ENOUGH, NAME, SHORT, Opener, Server, enter, enter_eventually, key_of, renewed, until

LONGER = 8.0
"""Seconds: the ttl of a lease that outlasts a fault, and a reconnect after it, on a machine that may stand still."""


async def aside(call: object, *args: object) -> None:
    """Do to the server what blocks, while the loop keeps running."""
    await asyncio.to_thread(call, *args)  # type: ignore[arg-type]


# Killed and restarted.


async def test_a_server_restarted_empty(own_server: RedisServer, opened: Opener) -> None:
    """Every holder knows long before its next renewal. Kept by RedisBackend._resume: `_reconnected`; Hold.verify."""
    locks = await opened(own_server.url)
    reasons: list[LossReason] = []

    async def body(number: int) -> None:
        try:
            async with locks.lock(f"n{number}"):
                await asyncio.sleep(60)
        except LockLost as lost:
            reasons.append(lost.reason)

    bodies = [asyncio.create_task(body(number)) for number in range(20)]
    await until(lambda: len(locks._runtime.holds) == 20)
    await aside(own_server.restart)
    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(*bodies)
    assert reasons == [LossReason.DELETED] * 20
    async with locks.lock("n0") as lease:
        assert lease.fence


async def test_fences_rise_over_a_restart(own_server: RedisServer, opened: Opener) -> None:
    """Invariant 2. Kept by Fences.floor, and the server's clock."""
    locks = await opened(own_server.url)
    fences = [await enter(locks.lock(NAME))]
    for _ in range(2):
        await aside(own_server.restart)
        fences.append(await enter_eventually(locks.lock(NAME)))
    assert fences == sorted(set(fences))


async def test_a_waiter_survives_a_restart(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    """Kept by acquisition.obtain: only a first attempt has a limited patience."""
    locks = await opened(own_server.url, request_timeout=0.5)
    others = await opened(own_server.url)
    lease = await others.lock(NAME).acquire()
    waiters = [asyncio.create_task(enter(locks.lock(NAME))) for _ in range(3)]
    await until(lambda: beside.waiting())
    await aside(own_server.kill)
    await asyncio.sleep(1.0)  # twice its request_timeout
    assert not any(waiter.done() for waiter in waiters)
    await aside(own_server.restart)
    async with asyncio.timeout(ENOUGH):
        fences = await asyncio.gather(*waiters)
    assert all(fence > lease.fence for fence in fences)
    async with asyncio.timeout(ENOUGH):
        await lease.wait_lost()
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_server_that_stays_away(own_server: RedisServer, opened: Opener) -> None:
    locks = await opened(own_server.url, ttl=SHORT, request_timeout=0.5)
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), locks.lock(NAME):
            await aside(own_server.kill)
            await asyncio.sleep(60)
    assert caught.value.reason is LossReason.UNREACHABLE


# Frozen and paused.


async def test_a_frozen_server(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    """SIGSTOP: the connection stays, but nothing is answered. Kept by Heartbeat._on_tick."""
    locks = await opened(own_server.url, ttl=SHORT, request_timeout=0.5)
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), locks.lock(NAME):
            own_server.freeze()
            await asyncio.sleep(60)
    assert caught.value.reason is LossReason.UNREACHABLE
    with pytest.raises(BackendError):
        async with asyncio.timeout(ENOUGH):
            await locks.lock("n1").acquire()
    own_server.thaw()
    await enter_eventually(locks.lock(NAME))
    await until(lambda: not beside.held())


async def test_a_short_freeze_is_survived(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    locks = await opened(own_server.url, request_timeout=0.5)
    async with locks.lock(NAME) as lease:
        expiry = lease._hold.expiry
        own_server.freeze()
        lease._hold.verify()  # its renewal is due
        await asyncio.sleep(1.5)  # it was given up, with its connection
        assert lease._hold.expiry == expiry
        own_server.thaw()
        await renewed(lease, expiry)
        assert not lease.lost
    await until(lambda: not beside.held())


async def test_what_was_cancelled_while_the_server_was_frozen(
    own_server: RedisServer, opened: Opener, beside: Server
) -> None:
    """Invariant 3: hundreds of requests wait in the server's socket when it thaws; nothing stays held."""
    locks = await opened(own_server.url, request_timeout=0.5)
    await enter(locks.lock("warm"))
    own_server.freeze()
    tasks = [asyncio.create_task(enter(locks.lock(f"n{i % 50}"))) for i in range(500)]
    await asyncio.sleep(0.05)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert not any(isinstance(result, int) for result in results)
    own_server.thaw()
    await enter_eventually(locks.lock(NAME))
    await until(lambda: not beside.held())


async def test_client_pause(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    locks = await opened(own_server.url, ttl=LONGER, request_timeout=5.0)
    async with locks.lock(NAME) as lease:
        beside.link.client_pause(800, all=True)
        async with asyncio.timeout(ENOUGH):
            await locks.lock("another").acquire()
        assert not lease.lost
    await locks.lock("another").release()
    await until(lambda: not beside.held())


# Killed connections, forgotten scripts, flushed keys.


async def test_client_kill(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    locks = await opened(own_server.url, ttl=LONGER)
    async with asyncio.timeout(ENOUGH), locks.lock(NAME) as lease:
        backend: Any = locks._runtime.backend
        for _ in range(5):
            opens = backend._dialer.opened
            beside.link.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            async with locks.lock(NAME), locks.lock("another"):
                pass
            await until(lambda opens=opens: backend._dialer.opened > opens)
        assert not lease.lost
    await until(lambda: not beside.held())


@pytest.mark.parametrize("tasks", [1, 2], ids=["release", "transfer"])
async def test_a_release_that_did_not_run_hides_no_loss(
    own_server: RedisServer, opened: Opener, beside: Server, tasks: int
) -> None:
    """The lock is gone and another's, and the server has forgotten the script of the release: nothing of that ran.
    Kept by Release.write and _Transfer: `unrun`.
    """
    locks, others = [await opened(own_server.url) for _ in range(2)]
    lock = locks.lock(NAME)
    waiting: list[asyncio.Task[int]] = []

    async def join() -> None:
        waiting.extend(asyncio.create_task(enter(lock)) for _ in range(tasks - 1))
        await asyncio.sleep(0)

    async with lock:  # so the client knows the script, and need not load it
        await join()
    await asyncio.gather(*waiting)
    with pytest.raises(LockLost) as lost:
        async with lock:
            await join()
            beside.link.delete(key_of(NAME))
            other = await others.lock(NAME).acquire()
            beside.link.script_flush()
    assert lost.value.reason is LossReason.TAKEN_OVER
    assert not other.lost
    await other.release()
    await asyncio.gather(*waiting)


async def test_script_flush(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    """Kept by Refusals._bring_script: the script is loaded and called again."""
    locks = await opened(own_server.url)
    fences: list[int] = []

    async def work() -> None:
        for _ in range(20):
            async with locks.lock(NAME) as lease, locks.lock(NAME):
                fences.append(lease.fence)

    async def forget() -> None:
        for _ in range(30):
            beside.link.script_flush()
            await asyncio.sleep(0.003)

    async with asyncio.timeout(20), locks.lock("kept") as kept:
        await asyncio.gather(forget(), *(work() for _ in range(4)))
        expiry = kept._hold.expiry
        beside.link.script_flush()
        kept._hold.verify()  # its renewal is due
        await renewed(kept, expiry)
    assert fences == sorted(set(fences))
    assert len(fences) == 80
    await until(lambda: not beside.held())


async def test_flushall(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    locks = await opened(own_server.url)
    lost: list[Lease] = []
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), locks.lock(NAME) as lease:
            lost.append(lease)
            beside.link.flushall()
            lease._hold.verify()  # its renewal is due
            await asyncio.sleep(60)
    assert caught.value.reason is LossReason.DELETED
    async with locks.lock(NAME) as lease:
        assert lease.fence > lost[0].fence


# Full.


async def test_out_of_memory(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    """H11: what is held is renewed and released; what is free is refused and stays free.

    Kept by state.lua: `write`; and release_free.lua: `.err`.
    """
    locks = await opened(own_server.url)  # whose ttl cannot help
    leases = [await locks.lock(f"n{i}").acquire() for i in range(3)]
    nested = await locks.lock("n1").acquire()
    beside.link.config_set("maxmemory", 1)
    lock = locks.lock(NAME)
    for call in (lock.acquire, lock.try_acquire):
        with pytest.raises(BackendError, match=r"OOM.*maxmemory") as caught:
            await call()
        assert NAME in str(caught.value)
        assert caught.value.transient
    assert not beside.locked()
    expiry = leases[0]._hold.expiry
    leases[0]._hold.verify()  # its renewal is due
    await renewed(leases[0], expiry)
    assert not any(lease.lost for lease in leases)
    waiter = asyncio.create_task(enter(locks.lock("n0")))
    await asyncio.sleep(0)
    await nested.release()
    for lease in leases:
        await lease.release()
    async with asyncio.timeout(ENOUGH):
        await waiter  # a hand-off deletes first, too
    assert not beside.held()
    beside.link.config_set("maxmemory", 0)
    async with asyncio.timeout(ENOUGH):
        assert await enter(lock)


async def test_eviction(
    own_server: RedisServer, opened: Opener, beside: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Locks can be evicted: the manager warns when it connects, and the next renewal notices the loss."""
    beside.link.config_set("maxmemory-policy", "volatile-ttl")
    beside.link.config_set("maxmemory", int(beside.link.info("memory")["used_memory"]) + 2_000_000)  # type: ignore[index]
    locks = await opened(own_server.url)
    warnings = [record for record in caplog.records if "evicts" in record.message]
    assert [record.levelno for record in warnings] == [logging.WARNING]
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(ENOUGH), locks.lock(NAME) as lease:
            number = 0
            while beside.locked():
                beside.link.set(
                    f"filler:{number}", b"x" * 20_000, ex=7 * 86_400
                )  # the server evicts what expires sooner
                number += 1
            lease._hold.verify()  # its renewal is due
            await asyncio.sleep(60)
    assert caught.value.reason is LossReason.DELETED


# It answers, and refuses.


async def test_a_server_that_became_read_only(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    """READONLY is no verdict: holders try until their deadline, waiters keep waiting, first attempts get an error.

    Kept by Refusals.judge: `NOT_THE_MASTER`.
    """
    locks = await opened(own_server.url)
    others = await opened(own_server.url, recheck=0.2)
    async with locks.lock("kept") as kept:
        lease = await locks.lock(NAME).acquire()
        waiter = asyncio.create_task(enter(others.lock(NAME)))
        await until(lambda: beside.waiting())
        expiry = kept._hold.expiry
        beside.link.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(BackendError, match=r"READONLY|MASTERDOWN") as caught:
            await locks.lock("n1").acquire()
        assert caught.value.transient
        released = asyncio.ensure_future(_release(lease))
        kept._hold.verify()  # its renewal is due
        await asyncio.sleep(0.5)
        assert kept._hold.expiry == expiry
        assert not waiter.done()
        beside.link.execute_command("REPLICAOF", "NO", "ONE")
        async with asyncio.timeout(ENOUGH):
            await released
            assert await waiter > lease.fence
        await renewed(kept, expiry)
    await until(lambda: not beside.held())


async def _release(lease: Lease) -> None:
    await lease.release()


async def test_a_busy_server(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    """BUSY is no verdict. Another client's script runs for too long."""
    locks = await opened(own_server.url, request_timeout=2.0)
    beside.link.config_set("busy-reply-threshold", 50)
    async with locks.lock(NAME) as lease:
        expiry = lease._hold.expiry
        with redis_cli.client(own_server.url) as link:
            thread = threading.Thread(target=_hang, args=(link,))
            thread.start()
            try:
                with pytest.raises(BackendError, match="BUSY") as caught:
                    async with asyncio.timeout(ENOUGH):
                        while True:
                            await enter(locks.lock("n1"))
                assert caught.value.transient
                lease._hold.verify()  # its renewal is due
                await asyncio.sleep(0.3)
                assert lease._hold.expiry == expiry
            finally:
                beside.link.script_kill()
                await asyncio.to_thread(thread.join)
        await renewed(lease, expiry)
    await until(lambda: not beside.held())


def _hang(link: object) -> None:
    try:
        link.eval("while true do end", 0)  # type: ignore[attr-defined]
    except Exception as error:
        assert "killed" in str(error).lower()  # noqa: PT017


async def test_an_operator_deletes_the_key(own_server: RedisServer, opened: Opener, beside: Server) -> None:
    """No message tells of it, and waiters get in all the same. Kept by refresh.lua: `not name.live`."""
    locks = await opened(own_server.url, liveness=0.3)
    others = await opened(own_server.url)
    lease = await others.lock(NAME).acquire()
    waiter = asyncio.create_task(enter(locks.lock(NAME)))
    await until(lambda: beside.waiting())
    beside.link.delete(key_of())
    async with asyncio.timeout(ENOUGH):
        assert await waiter > lease.fence
    with pytest.raises(LockLost):
        await lease.release()
