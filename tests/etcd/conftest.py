"""A cluster of one, empty."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiolock import LockManager
from tests.support import etcd


@pytest.fixture
def server() -> etcd.Etcd:
    """Shared by the tests of a worker, and empty."""
    found = etcd.shared()
    found.delete("\0", "\xff")
    return found


@pytest.fixture
async def locks(server: etcd.Etcd) -> AsyncIterator[LockManager]:
    """One process's manager."""
    async with LockManager(server.url, ttl=6.0) as made:
        yield made


@pytest.fixture
async def others(server: etcd.Etcd) -> AsyncIterator[LockManager]:
    """Another's."""
    async with LockManager(server.url, ttl=6.0) as made:
        yield made
