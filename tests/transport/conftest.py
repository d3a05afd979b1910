"""Backends on the shared server or through a proxy, closed when the test ends."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aiolock.backends.redis import RedisBackend
from aiolock.testing.server import RedisServer
from tests.support.proxy import FaultProxy

from .calls import Log

Connect = Callable[..., Awaitable[RedisBackend]]


@pytest.fixture
def reconnected() -> Log:
    """The callback that every backend of the test is opened with."""
    return Log()


@pytest.fixture
async def connect(redis_url: str, reconnected: Log) -> AsyncIterator[Connect]:
    """Opens a backend, by default on the shared server."""
    opened: list[RedisBackend] = []

    async def open_backend(source: Any = redis_url, **options: Any) -> RedisBackend:
        backend = RedisBackend(source, **options)
        await backend.open(timeout=5.0, reconnected=reconnected)
        opened.append(backend)
        return backend

    yield open_backend
    for backend in opened:
        await backend.aclose()


@pytest.fixture
async def backend(connect: Connect) -> RedisBackend:
    """A backend on the shared server."""
    return await connect()


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[FaultProxy]:
    """A proxy in front of the shared server."""
    async with FaultProxy(redis_server.host, redis_server.port) as proxy:
        yield proxy


def server_tls(certificate: Path) -> ssl.SSLContext:
    """What a server needs of `certificate`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert.pem")
    return context
