"""One clock for all processes of a host: no step of the wall clock moves it, and a reboot does not set it back."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from aiolock import BackendError, ConfigurationError, LockManager
from aiolock.backends.sqlite import clock
from aiolock.events import Reconnected

from .test_file import Watch, until

pytestmark = pytest.mark.skipif(not clock.BOOT.exists(), reason="the system does not tell one boot from another")
HOUR_NS = 3_600_000_000_000


@contextmanager
def wall_clock(step: int) -> Iterator[None]:
    """Step it by so many nanoseconds."""
    real = time.time_ns
    with mock.patch("time.time_ns", side_effect=lambda: real() + step):
        yield


async def fence(url: str) -> int:
    async with LockManager(url) as locks, locks.lock("a") as lease:
        return lease.fence


@pytest.mark.parametrize("step", [-HOUR_NS, HOUR_NS])
async def test_a_step_of_the_wall_clock(url: str, step: int) -> None:
    """Whether it happens while the file is open or not. Kept by HostClock.now_us."""
    first = await fence(url)
    with wall_clock(step):
        assert first < await fence(url) < first + 60_000_000


async def test_after_a_reboot_with_a_wall_clock_that_is_behind(url: str, path: Path, tmp_path: Path) -> None:
    """Fences rise all the same, above all that may have been given out before. Kept by HostClock.reserve."""
    there = tmp_path / "after the reboot.db"
    async with LockManager(url, ttl=30) as locks, locks.lock("a") as lease:
        first = lease.fence
        now, then = sqlite3.connect(path), sqlite3.connect(there)  # the machine stops: nothing is released
        now.backup(then)
        now.close()
    (reserved,) = then.execute("SELECT until_us FROM aiolock_clock").fetchone()
    then.execute("UPDATE aiolock_clock SET boot = 'the one before'")
    then.commit()
    then.close()
    with wall_clock(-HOUR_NS):
        async with LockManager(f"sqlite:///{there}") as locks:
            lease = await locks.lock("a").acquire(timeout=0)  # its time is over, too
            assert lease.fence > reserved > first
            await lease.release()


async def test_what_is_reserved_is_extended_before_it_is_used(url: str, path: Path) -> None:
    """Kept by SQLiteEngine._transact, which asks HostClock.runs_out."""
    async with LockManager(url) as locks:
        engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
        async with locks.lock("a"):
            before = engine._clock.until
        engine._clock._ahead += clock.RESERVED
        async with locks.lock("a") as lease:
            assert before < lease.fence < engine._clock.until
        (kept,) = sqlite3.connect(path).execute("SELECT until_us FROM aiolock_clock").fetchone()
        assert kept == engine._clock.until


@contextmanager
def namespace(tmp_path: Path, offset: float) -> Iterator[None]:
    """A time namespace that moves the time since boot by so many seconds."""
    offsets = tmp_path / "timens_offsets"
    seconds, rest = divmod(int(offset * 10**9), 10**9)
    offsets.write_text(f"monotonic           0         0\nboottime     {seconds}    {rest}\n")
    real = time.clock_gettime_ns
    with (
        mock.patch.object(clock, "OFFSETS", offsets),
        mock.patch("time.clock_gettime_ns", side_effect=lambda which: real(which) + int(offset * 10**9)),
    ):
        yield


@pytest.mark.parametrize("offset", [3600, -0.5])
async def test_a_time_namespace(url: str, tmp_path: Path, offset: float) -> None:
    """A container may have one of its own; all have one clock. Kept by moved_ns."""
    first = await fence(url)
    with namespace(tmp_path, offset):
        between = await fence(url)
    assert first < between < await fence(url) < first + 60_000_000


IN_A_NAMESPACE = """
import asyncio, sys
from aiolock import AcquireTimeout, LockManager

async def main():
    async with LockManager(sys.argv[1]) as locks:
        try:
            await locks.lock("a").acquire(timeout=0)
        except AcquireTimeout:
            print("excluded")
        async with locks.lock("b") as lease:
            print(lease.fence)

asyncio.run(main())
"""


async def test_a_real_time_namespace(url: str) -> None:
    async with LockManager(url, ttl=60) as locks, locks.lock("a") as lease:
        words = ["unshare", "--time", "--boottime", "3600", "--fork", sys.executable, "-c", IN_A_NAMESPACE, url]
        if not shutil.which("unshare") or subprocess.run([*words[:5], "true"], check=False).returncode:  # noqa: ASYNC221
            pytest.skip("time namespaces are not permitted")
        done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=True)
        excluded, number = done.stdout.split()
        assert excluded == "excluded"
        assert lease.fence < int(number) < lease.fence + 60_000_000


async def test_a_process_that_left_its_time_namespace(url: str, tmp_path: Path) -> None:
    """What the system tells is not of its own clock then. Kept by moved_ns."""
    own, children = tmp_path / "time", tmp_path / "time_for_children"
    own.symlink_to("time:[1]")
    children.symlink_to("time:[2]")
    with (
        mock.patch.object(clock, "OWN", own),
        mock.patch.object(clock, "CHILDREN", children),
        pytest.raises(ConfigurationError, match="take locks in a child"),
    ):
        await LockManager(url).open()


async def test_a_kernel_without_time_namespaces(url: str, tmp_path: Path) -> None:
    with mock.patch.object(clock, "OWN", tmp_path / "nothing"):
        assert await fence(url) < await fence(url)


async def test_nobody_waits_for_the_disk_of_another(url: str, path: Path) -> None:
    """What is reserved is on the disk before it is used, and the file is not locked while that takes its time; others
    need not write it again. Kept by SQLiteEngine._reserve.
    """
    synced: list[int] = []
    sync = os.fsync

    def slowly(fd: int) -> None:
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        synced.append(other.execute("SELECT until_us FROM aiolock_clock").fetchone()[0])
        other.close()
        assert os.path.samestat(os.fstat(fd), os.stat(f"{path}-wal"))
        sync(fd)

    with mock.patch("os.fsync", slowly):
        async with LockManager(url) as one, LockManager(url) as two:
            for locks in (one, two):
                async with locks.lock("a") as lease:
                    engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
                    assert lease.fence < engine._clock.until == synced[-1]
    assert synced == synced[:1] * 2


async def test_a_disk_that_cannot_keep_what_is_reserved(url: str) -> None:
    """No fence is given out. Kept by SQLiteEngine._reserve."""
    watch = Watch()
    async with LockManager(url, observer=watch) as locks:
        with (
            mock.patch("os.fsync", side_effect=OSError(5, "Input/output error")),
            pytest.raises(BackendError, match="Input/output error"),
        ):
            await locks.lock("a").acquire()
        await until(watch.told[Reconnected])
        async with locks.lock("a"):
            pass
