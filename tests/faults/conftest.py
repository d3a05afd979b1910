"""A server behind a fault proxy, and managers on both sides of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from aiolock import Lock, LockManager
from aiolock.testing.server import RedisServer
from tests.support import acl, redis_cli
from tests.support.proxy import FaultProxy

from .scene import NAME, USER, Opener, Server


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    async with AsyncExitStack() as stack:

        async def enter(url: str, **options: Any) -> LockManager:
            settings: dict[str, Any] = {"ttl": 60.0, "recheck": 60.0, "request_timeout": 3.0, **options}
            manager = LockManager(url, **settings)
            limits = manager._runtime.limits
            # Nothing is wrong yet, and a noisy machine may be slow: it may even fail to let an impatient manager in.
            manager._runtime.limits = replace(limits, request_timeout=10.0)
            await stack.enter_async_context(manager)
            manager._runtime.limits = limits
            manager._runtime.patience.seconds = limits.request_timeout
            return manager

        yield enter


@pytest.fixture
def server(redis_url: str) -> Iterator[Server]:
    """A view of the shared server."""
    with redis_cli.client(redis_url) as link:
        yield Server(link)


@pytest.fixture
async def proxy(redis_server: RedisServer, redis_url: str) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(redis_server.host, redis_server.port) as proxy:
        yield proxy
        proxy.heal()


@pytest.fixture
async def locks(proxy: FaultProxy, opened: Opener) -> LockManager:
    """The manager behind the proxy; neither ttl nor recheck can help it."""
    return await opened(proxy.url)


@pytest.fixture
async def others(redis_url: str, opened: Opener) -> LockManager:
    """A manager with a good connection."""
    return await opened(redis_url)


@pytest.fixture
def here(locks: LockManager) -> Lock:
    return locks.lock(NAME)


@pytest.fixture
def there(others: LockManager) -> Lock:
    return others.lock(NAME)


@pytest.fixture
def nokill(server: Server) -> Iterator[str]:
    """Credentials of a user that may not CLIENT KILL, as `user:password@`."""
    server.link.execute_command(*acl.setuser(server.link, USER, *acl.EVERYTHING, "-client|kill"))
    yield f"{USER}:secret@"
    server.link.execute_command("ACL", "DELUSER", USER)


@pytest.fixture(params=["kill allowed", "kill denied"])
async def either(request: pytest.FixtureRequest, proxy: FaultProxy, nokill: str, opened: Opener) -> LockManager:
    """The manager behind the proxy: one that may end its old connection, and one that may not."""
    credentials = nokill if request.param == "kill denied" else ""
    return await opened(proxy.url.replace("redis://", f"redis://{credentials}"))


@pytest.fixture
def beside(own_server: RedisServer) -> Iterator[Server]:
    """A view of the test's own server."""
    with redis_cli.client(own_server.url) as link:
        yield Server(link)
