"""Managers for threads, and a thread that does what it is told."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, Unpack

import pytest

from aiolock.manager_options import ManagerOptions
from aiolock.sync import LockManager

R = TypeVar("R")

ENOUGH = 60.0
"""Seconds: far longer than anything here takes."""


class Worker:
    """A thread that does one thing after the other."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)

    def begin(self, do: Callable[[], R]) -> Future[R]:
        return self._pool.submit(do)

    def __call__(self, do: Callable[[], R]) -> R:
        return self.begin(do).result(ENOUGH)

    def end(self) -> None:
        """Returns when the thread has ended."""
        self._pool.shutdown()


def until(check: Callable[[], object]) -> None:
    """Poll for a change that is not announced."""
    ends = time.monotonic() + ENOUGH
    while not check():
        assert time.monotonic() < ends
        time.sleep(0.002)


def waits(locks: LockManager) -> bool:
    """Whether a thread waits for a lock of this manager."""
    return any(gate.occupied() for gate in list(locks._core._runtime.gates.values()))


def in_memory(**options: Unpack[ManagerOptions]) -> LockManager:
    """Return a manager of a store of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it does not cross processes
        return LockManager("memory://", **options)


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.end()


@pytest.fixture
def memory() -> Iterator[LockManager]:
    """On a store of its own."""
    with in_memory() as manager:
        yield manager


@pytest.fixture
def locks(redis_url: str) -> Iterator[LockManager]:
    """One process's manager, on a real server."""
    with LockManager(redis_url) as manager:
        yield manager


@pytest.fixture
def others(redis_url: str) -> Iterator[LockManager]:
    """Another process's manager, on the same server."""
    with LockManager(redis_url) as manager:
        yield manager
