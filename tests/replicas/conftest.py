"""A master and a replica, and managers that wait for its acknowledgement."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiolock import Lock, LockManager
from tests.faults.scene import NAME, Opener, Server
from tests.support.proxy import FaultProxy
from tests.support.replication import Pair


@pytest.fixture
async def opened(replicated: Pair) -> AsyncIterator[Opener]:
    """Opens managers; by default neither ttl nor recheck nor a replica's delay can help them."""
    async with AsyncExitStack() as stack:

        async def enter(url: str = replicated.url, **options: Any) -> LockManager:
            settings: dict[str, Any] = {"ttl": 60.0, "recheck": 60.0, "request_timeout": 12.0, **PATIENT, **options}
            return await stack.enter_async_context(LockManager(url, **settings))

        yield enter
        replicated.replica.thaw()


PATIENT = {"min_replicas": 1, "replica_timeout": 6.0}
"""A WAIT lasts until the test thaws the replica."""
HASTY = {"min_replicas": 1, "replica_timeout": 0.15}
"""A frozen replica is soon given up."""
PLAIN = {"min_replicas": None}


@pytest.fixture
def server(replicated: Pair) -> Server:
    """A view of the master."""
    return Server(replicated.link)


@pytest.fixture
async def proxy(replicated: Pair) -> AsyncIterator[FaultProxy]:
    """A proxy in front of the master."""
    async with FaultProxy(replicated.master.host, replicated.master.port) as proxy:
        yield proxy
        proxy.heal()


@pytest.fixture
async def patient(opened: Opener) -> LockManager:
    return await opened()


@pytest.fixture
async def hasty(opened: Opener) -> LockManager:
    return await opened(**HASTY)


@pytest.fixture
async def others(opened: Opener) -> LockManager:
    """A manager that asks for no acknowledgement."""
    return await opened(**PLAIN)


@pytest.fixture
def there(others: LockManager) -> Lock:
    return others.lock(NAME)
