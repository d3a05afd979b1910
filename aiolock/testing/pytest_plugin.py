"""Fixtures for users' tests; registered as a pytest plugin by the distribution."""

from __future__ import annotations

import pytest

from .memory import MemoryBackend


@pytest.fixture
def aiolock_memory() -> MemoryBackend:
    """A fresh `aiolock.testing.MemoryBackend`: pass it to `LockManager`, and its clock stands until you advance it."""
    return MemoryBackend()
