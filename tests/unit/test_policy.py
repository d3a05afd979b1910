"""Bad durations and options are refused before anything is held, in words that name the lock and the remedy."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from aiolock import ConfigurationError, LockManager
from aiolock.testing import MemoryBackend

from .world import assert_empty

NUMBERS_NEVER = [math.nan, math.inf, -math.inf, -1.0, -0.001, "3", b"3", True, [], Decimal(3), 1j, 10**400]


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
    }
)
LOCK = refused(
    {
        "ttl": [*NUMBERS_NEVER, 0, 0.0999, 30 * 86400 + 1],
        "acquire_timeout": NUMBERS_NEVER,
        "max_hold": [*NUMBERS_NEVER, 0],
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
        ("sleep", "woken"),
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
    with pytest.raises(TypeError, match="'colour'"):
        LockManager(MemoryBackend()).lock("a", colour="red")


@pytest.mark.parametrize("value", [0.1, 30 * 86400])
async def test_the_bounds_themselves_work(value: float) -> None:
    async with LockManager(MemoryBackend(), ttl=value) as locks:
        async with locks.lock("a") as lease:
            assert 0 < lease.remaining() < value
        assert_empty(locks)
