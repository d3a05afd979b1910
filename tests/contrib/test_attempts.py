"""A server that does not answer, and many who want the manager at once: they fail together, not one after another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from django.conf import settings
from django.test.utils import override_settings

import aiolock.contrib.celery
import aiolock.contrib.django
import aiolock.contrib.django.sync
from aiolock import BackendError
from aiolock.contrib.attempts import Attempts
from aiolock.sync import LockManager

if not settings.configured:
    settings.configure(LOGGING_CONFIG=None)

AT_ONCE = 4


class Mute:
    """A server that accepts connections and answers none."""

    def __init__(self) -> None:
        self.connections = 0
        self.arguments: dict[str, object] = {}

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await reader.read(-1)
        finally:
            writer.close()


@pytest.fixture
async def mute() -> AsyncIterator[Mute]:
    mute = Mute()
    server = await asyncio.start_server(mute.hear, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    mute.arguments = {"source": f"redis://127.0.0.1:{port}/0", "request_timeout": 0.5}
    async with server:
        with override_settings(AIOLOCK=mute.arguments):
            yield mute


async def django(mute: Mute) -> Callable[[], Awaitable[object]]:
    return aiolock.contrib.django.get_locks


async def django_in_threads(mute: Mute) -> Callable[[], Awaitable[object]]:
    return lambda: asyncio.to_thread(aiolock.contrib.django.sync.get_locks)


async def celery(mute: Mute) -> Callable[[], Awaitable[object]]:
    locks = LockManager(**mute.arguments)  # type: ignore[arg-type]
    return lambda: asyncio.to_thread(aiolock.contrib.celery.opened, locks)


@pytest.mark.parametrize("of", [django, django_in_threads, celery])
async def test_they_share_a_failure(
    mute: Mute, of: Callable[[Mute], Awaitable[Callable[[], Awaitable[object]]]]
) -> None:
    """Kept by Attempts.one: without it each tries, for a request_timeout after the one before it."""
    get_locks = await of(mute)
    failures = await asyncio.gather(*(get_locks() for _ in range(AT_ONCE)), return_exceptions=True)
    assert [type(failure) for failure in failures] == [BackendError] * AT_ONCE
    assert len(set(map(id, failures))) == AT_ONCE
    one = mute.connections
    assert one < AT_ONCE
    with pytest.raises(BackendError):
        await get_locks()
    assert mute.connections > one


def test_who_comes_after_a_failure_tries_anew() -> None:
    attempts = Attempts()
    with pytest.raises(BackendError, match="away"), attempts.one(attempts.failed):
        raise BackendError("", "away") from OSError("refused")
    with pytest.raises(BackendError, match="away") as shared, attempts.one(0):
        raise AssertionError("another attempt")
    assert isinstance(shared.value.__cause__, OSError)
    tried = []
    with attempts.one(attempts.failed):
        tried.append(True)
    assert tried
