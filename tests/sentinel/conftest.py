"""Managers that ask real Sentinels."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiolock import LockManager
from tests.support.sentinels import SentinelSet

Opener = Callable[..., Awaitable[LockManager]]


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    """Opens managers on the master of a set of Sentinels."""
    async with AsyncExitStack() as stack:

        async def enter(watched: SentinelSet, **options: Any) -> LockManager:
            settings: dict[str, Any] = {"service": watched.service, "ttl": 3.0, "request_timeout": 5.0, **options}
            return await stack.enter_async_context(LockManager.sentinel(watched.addresses, **settings))

        yield enter
