"""Bad durations and options are refused before anything is held, with an error that names the lock and the remedy."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from aiolock import ConfigurationError, LockLost, LockManager, Poll, WaitTimeout
from aiolock.testing import MemoryBackend

from .world import assert_empty, runtime_of

NUMBERS_NEVER = [math.nan, math.inf, -math.inf, -1.0, -0.001, "3", b"3", True, [], Decimal(3), 1j, 10**400]
FLAGS_NEVER = [0, 1, 1.0, "yes", "", []]


def refused(options: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(name, value, id=f"{name}={str(value)[:12]}")
        for name, values in options.items()
        for value in values
    ]


MANAGER = refused(
    {
        "ttl": [*NUMBERS_NEVER, None, 0, 0.0999, 30 * 86400 + 1],
        "margin": [*NUMBERS_NEVER, 30.0, 31.0],
        "acquire_timeout": NUMBERS_NEVER,
        "request_timeout": [*NUMBERS_NEVER, None, 0],
        "recheck": [*NUMBERS_NEVER, None, 0],
        "handoff_limit": [-1, 1.5, None, True, "16"],
        "renew": FLAGS_NEVER,
        "replica_timeout": [*NUMBERS_NEVER, 0],  # also if no replica must acknowledge
    }
)
LOCK = refused(
    {
        "ttl": [*NUMBERS_NEVER, 0, 0.0999, 30 * 86400 + 1],
        "acquire_timeout": NUMBERS_NEVER,
        "max_hold": [*NUMBERS_NEVER, 0],
        "renew": FLAGS_NEVER,
        "cancel_on_loss": [*FLAGS_NEVER, None],
        "metadata": [b"bytes", 3, "x" * 4097, "é" * 2049, "\ud800"],
    }
)


@pytest.mark.parametrize(("option", "value"), MANAGER)
def test_the_manager_refuses(option: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=option) as caught:
        LockManager(MemoryBackend(), **{option: value})  # type: ignore[arg-type]
    assert caught.value.name == ""


@pytest.mark.parametrize(("option", "value"), LOCK)
def test_a_lock_refuses(option: str, value: object) -> None:
    manager = LockManager(MemoryBackend())
    with pytest.raises(ConfigurationError, match=option) as caught:
        manager.lock("order:42", **{option: value})  # type: ignore[arg-type]
    assert caught.value.name == "order:42"
    assert "order:42" in str(caught.value)


@pytest.mark.parametrize("value", NUMBERS_NEVER, ids=lambda value: str(value)[:12])
async def test_acquire_refuses(locks: LockManager, backend: MemoryBackend, value: object) -> None:
    with pytest.raises(ConfigurationError, match="timeout of lock 'order:42'"):
        locks.lock("order:42").acquire(timeout=value)  # type: ignore[arg-type]
    assert backend.calls == []


async def test_acquire_refuses_what_is_no_owner(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("a") as lease:
        with pytest.raises(ConfigurationError, match="must be that of a lease"):
            locks.lock("a").acquire(owner=lease)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [*NUMBERS_NEVER, None], ids=lambda value: str(value)[:12])
async def test_ensure_refuses(locks: LockManager, value: object) -> None:
    """`ensure(nan)` would pass, whatever is left. Also of a lease that is lost or released."""
    async with locks.lock("order:42") as lease:
        with pytest.raises(ConfigurationError, match=r"ensure\(\) of lock 'order:42'"):
            lease.ensure(value)  # type: ignore[arg-type]
        lease.ensure(timedelta(seconds=1))
    with pytest.raises(ConfigurationError):
        lease.ensure(value)  # type: ignore[arg-type]


async def test_renew_refuses(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.lock("order:42") as lease:
        for ttl in (0, math.nan, -1, 0.05, 10**400):
            with pytest.raises(ConfigurationError, match="ttl of lock 'order:42'"):
                await lease.renew(ttl)
        assert backend.calls == ["acquire"]
        assert not lease.lost


def test_a_margin_of_the_manager_must_fit_each_lock() -> None:
    manager = LockManager(MemoryBackend(), margin=5)
    with pytest.raises(ConfigurationError, match="less than the ttl") as caught:
        manager.lock("short", ttl=5)
    assert caught.value.name == "short"


@pytest.mark.parametrize(
    ("ttl", "margin"), [(0.1, 0.05), (0.5, 0.05), (1, 0.1), (10, 1), (30, 3), (3600, 3), (Fraction(1, 2), 0.05)]
)
async def test_default_margin(ttl: float, margin: float) -> None:
    """`check_margin`: a tenth of the ttl, within 0.05 s and 3 s."""
    async with LockManager(MemoryBackend(), ttl=ttl) as locks, locks.lock("a") as lease:
        assert lease.remaining() == pytest.approx(float(ttl) - margin)


@pytest.mark.parametrize(
    ("keyword", "ours"),
    [
        ("timeout", "ttl="),
        ("blocking_timeout", "acquire_timeout="),
        ("blocking", "try_acquire"),
        ("sleep", "message"),
        ("thread_local", "task"),
        ("lease_time", "ttl="),
        ("wait", "acquire_timeout="),
        ("auto_renewal", "renew="),
        ("expire", "ttl="),
    ],
)
def test_keywords_of_other_libraries_name_ours(keyword: str, ours: str) -> None:
    with pytest.raises(TypeError, match=ours):
        LockManager(MemoryBackend()).lock("a", **{keyword: 10})


def test_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="'colour': there are ttl, acquire_timeout"):
        LockManager(MemoryBackend()).lock("a", colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "ours"),
    [
        (lambda locks: locks.lock("a").acquire(blocking=False), "call try_acquire"),
        (lambda locks: locks.lock("a").acquire(blocking_timeout=3), "pass timeout="),
        (lambda locks: locks.rw_lock("a").write.acquire(ttl=3), "where the lock is made"),
        (lambda locks: locks.multi_lock("a", "b").acquire(expire=3), "where the lock is made"),
        (lambda locks: locks.semaphore("a", 3).acquire(2, blocking=True), "call try_acquire"),
        (lambda locks: locks.lock("a").try_acquire(timeout=3), "call acquire"),
        (lambda locks: locks.semaphore("a", 3).try_acquire(timeout=3), "call acquire"),
        (lambda locks: locks.lock("a").acquire(colour="red"), "there are timeout, owner"),
    ],
)
async def test_acquire_says_what_to_do_instead(locks: LockManager, call: Any, ours: str) -> None:
    """And does not become an acquisition that is never awaited."""
    with pytest.raises(TypeError, match=ours):
        call(locks)


async def test_a_timedelta_works_like_seconds(backend: MemoryBackend) -> None:
    """Wherever seconds are taken. Kept by `check_duration`, and by `in_seconds` where nothing is checked."""

    def span(seconds: float) -> timedelta:
        return timedelta(seconds=seconds)

    manager = LockManager(
        "redis://localhost",
        ttl=span(20),
        margin=span(2),
        acquire_timeout=span(7),
        request_timeout=span(4),
        recheck=span(3),
        liveness=span(2.5),
        waiting=Poll(first=span(0.02), cap=span(0.2)),
        min_replicas=1,
        replica_timeout=span(0.25),
    )
    runtime, replicas = runtime_of(manager), manager._replicas
    assert (manager._policy.ttl, manager._policy.margin, manager._policy.acquire_timeout) == (20, 2, 7)
    assert (runtime.limits.request_timeout, runtime.limits.recheck, runtime.limits.liveness_ms) == (4, 3, 2500)
    assert (runtime.waiting.poll, replicas is not None and replicas.timeout) == (Poll(0.02, 0.2), 0.25)
    assert LockManager.quorum([MemoryBackend() for _ in range(3)], ttl=span(9), request_timeout=span(1))
    async with LockManager(MemoryBackend(backend)) as locks:
        lock = locks.lock("a", ttl=span(10), acquire_timeout=span(5), max_hold=span(60))
        assert (lock._policy.ttl, lock._policy.acquire_timeout, lock._policy.max_hold) == (10, 5, 60)
        async with lock.acquire(timeout=span(1)) as lease:
            lease.ensure(span(8.9))
            with pytest.raises(LockLost, match=r"not 9\.1 s"):
                lease.ensure(span(9.1))
            await lease.renew(span(30))
            assert lease.remaining() == pytest.approx(29)
        waiting = asyncio.ensure_future(locks.latch("b", 1, ttl=span(60)).wait(span(0.5)))
        await backend.clock.advance(span(0.5))
        with pytest.raises(WaitTimeout, match=r"within 0\.5 s"):
            await waiting
        lease = await locks.lock("c").acquire()
        await lease.detach(span(50))
        backend.clock.jump(span(49))
        assert await locks.lock("c").is_locked()
        backend.clock.jump(span(1))
        assert not await locks.lock("c").is_locked()


@pytest.mark.parametrize("value", [0.1, 30 * 86400])
async def test_the_bounds_themselves_work(value: float) -> None:
    async with LockManager(MemoryBackend(), ttl=value) as locks:
        async with locks.lock("a") as lease:
            assert 0 < lease.remaining() < value
        assert_empty(locks)
