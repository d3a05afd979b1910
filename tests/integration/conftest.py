"""A manager on the memory backend, and the loss of a lease on demand."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiolock import LockManager
from aiolock.testing import MemoryBackend
from tests.unit.world import assert_empty, settle


@pytest.fixture
def backend() -> MemoryBackend:
    """A server."""
    return MemoryBackend()


@pytest.fixture
async def locks(backend: MemoryBackend) -> AsyncIterator[LockManager]:
    """This process."""
    async with LockManager(backend) as manager:
        yield manager
        await settle(backend)
        assert_empty(manager)
