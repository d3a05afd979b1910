"""Many threads that are switched after each few instructions: the counter is exact. What one lacks is found here, also
by an interpreter without a lock of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from .conftest import ENOUGH, in_memory

THREADS, TIMES = 16, 40


@pytest.fixture
def switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
def test_the_counter_is_exact(kind: str) -> None:
    """Kept by Portal, and by what it makes of a call in a thread."""
    count = 0
    with in_memory() as locks:

        def work() -> None:
            nonlocal count
            lock = getattr(locks, kind)("counter")
            for _ in range(TIMES):
                with lock.acquire(timeout=ENOUGH):
                    seen = count
                    assert lock.is_locked()
                    count = seen + 1

        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(work) for _ in range(THREADS)]:
                done.result()
    assert count == THREADS * TIMES


@pytest.mark.usefixtures("switching")
def test_readers_see_no_writer() -> None:
    """Kept by Portal."""
    value, writers = [0, 0], 0
    with in_memory() as locks:

        def write() -> None:
            nonlocal writers
            for _ in range(TIMES):
                with locks.rw_lock("pair").write.acquire(timeout=ENOUGH):
                    value[0] += 1
                    value[1] += 1
                    writers += 1

        def read() -> None:
            for _ in range(TIMES):
                with locks.rw_lock("pair").read.acquire(timeout=ENOUGH):
                    assert value[0] == value[1]

        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(do) for do in (write, read) * (THREADS // 2)]:
                done.result()
    assert value == [writers, writers]
    assert writers == THREADS // 2 * TIMES
