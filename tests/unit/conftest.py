"""One manager on a memory backend, and a peer on the same store as another process would be."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiolock import LockManager
from aiolock.testing import MemoryBackend

from .world import Crew, assert_empty, settle


@pytest.fixture
def backend() -> MemoryBackend:
    """A server, with its clock."""
    return MemoryBackend()


@pytest.fixture
async def locks(backend: MemoryBackend) -> AsyncIterator[LockManager]:
    """This process."""
    async with LockManager(backend) as manager:
        yield manager
        await settle(backend)
        assert_empty(manager)


@pytest.fixture
def peer_backend(backend: MemoryBackend) -> MemoryBackend:
    """The other process's connection to the same server."""
    return MemoryBackend(backend)


@pytest.fixture
async def peer(backend: MemoryBackend, peer_backend: MemoryBackend) -> AsyncIterator[LockManager]:
    """Another process on the same server."""
    async with LockManager(peer_backend) as manager:
        yield manager
        await settle(backend)
        assert_empty(manager)


@pytest.fixture
async def crew(backend: MemoryBackend, locks: LockManager, peer: LockManager) -> AsyncIterator[Crew]:
    """Starts tasks, and cancels those that are left when the test ends."""
    crew = Crew()
    yield crew
    await crew.dismiss()
    await settle(backend)
