"""Fixtures for your tests.

pytest loads this file in every run of every user. So the rest of aiolock is imported when a test asks for a fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from aiolock.testing import MemoryBackend, VirtualClock


@pytest.fixture
def aiolock_clock() -> VirtualClock:
    """The clock of `aiolock_memory`, if your test asks for it: an `aiolock.testing.VirtualClock` that stands still."""
    from aiolock.testing import VirtualClock

    return VirtualClock()


@pytest.fixture
def aiolock_memory(request: pytest.FixtureRequest) -> MemoryBackend:
    """A new `aiolock.testing.MemoryBackend` for `LockManager`. Its time is real unless you ask for `aiolock_clock`."""
    from aiolock.testing import MemoryBackend, VirtualClock

    if "aiolock_clock" in request.fixturenames:
        return MemoryBackend(clock=request.getfixturevalue("aiolock_clock"))
    return MemoryBackend(clock=VirtualClock(running=True))
