"""Preludes of blocks that define an application or a worker: each runs as its framework would run it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.management import call_command
from django.test.utils import override_settings

from aiolock.contrib.django import sync as django_sync

Namespace = dict[str, Any]


@asynccontextmanager
async def arq_worker(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a worker's settings: it is started, given a job, and shut down."""
    pytest.importorskip("arq", reason="arq wants redis-py < 6: make test-frameworks")
    namespace: Namespace = {}
    yield namespace
    hooks, context = vars(namespace["WorkerSettings"]), dict[str, Any]()
    await hooks["on_startup"](context)
    assert await hooks["functions"][0](context, "42") > 0
    await hooks["on_shutdown"](context)
    assert repr(context["locks"]).endswith("closed>")


@asynccontextmanager
async def taskiq_worker(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a `broker` with the task `ship`, and perhaps `cancel`: they are done."""
    namespace: Namespace = {"__name__": __name__}
    yield namespace
    await namespace["broker"].startup()
    for name, returned in (("ship", "shipped 42"), ("cancel", None)):
        if name in namespace:
            result = await (await namespace[name].kiq("42")).wait_result(check_interval=0.01, timeout=10)
            assert (result.error, result.return_value) == (None, returned)
    await namespace["broker"].shutdown()


@asynccontextmanager
async def scheduled(url: str) -> AsyncIterator[Namespace]:
    """For a block that schedules `nightly_report()` in its `main()`: two processes have it due at once."""
    written: list[str] = []

    def write(report: str) -> None:
        written.append(report)
        namespace["stopped"].set()

    namespace: Namespace = {"__name__": __name__}
    yield namespace
    namespace["print"] = write
    (job,) = namespace["scheduler"].get_jobs()
    job.modify(next_run_time=datetime.now(UTC))
    namespace["scheduler"].add_job(namespace["nightly_report"])
    await namespace["main"]()
    assert written == ["written"]


@asynccontextmanager
async def celery_app(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines Celery's task `ship`, and perhaps `cancel`: they are called as functions."""
    namespace: Namespace = {"__name__": f"shop_{uuid.uuid4().hex}"}  # each app of a process gets the tasks of all
    yield namespace
    assert await asyncio.to_thread(namespace["ship"], "42") > 0
    if "cancel" in namespace:
        await asyncio.to_thread(namespace["cancel"], "42")
    await asyncio.to_thread(namespace["locks"].close)


@asynccontextmanager
async def django_command(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a management command: it runs."""
    _configure()
    namespace: Namespace = {"__name__": __name__}
    yield namespace
    with override_settings(AIOLOCK={"source": url}):
        out = StringIO()
        await asyncio.to_thread(call_command, namespace["Command"](stdout=out), skip_checks=True)
        assert "under fence 1" in out.getvalue()
        await asyncio.to_thread(lambda: django_sync.get_locks().close())


@asynccontextmanager
async def django_sync_view(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a synchronous view `ship`: Django asks it."""
    _configure()
    namespace: Namespace = {"__name__": __name__}
    yield namespace
    with override_settings(AIOLOCK={"source": url}):
        response = await asyncio.to_thread(namespace["ship"], None, 42)
        assert b"fence" in response.content
        await asyncio.to_thread(lambda: django_sync.get_locks().close())


@asynccontextmanager
async def django_until_commit(url: str) -> AsyncIterator[Namespace]:
    """For a block that defines a synchronous view `sell`: it is called without a transaction."""
    _configure()
    namespace: Namespace = {"__name__": __name__}
    yield namespace
    with override_settings(AIOLOCK={"source": url}):
        response = await asyncio.to_thread(namespace["sell"], None, 42)
        assert response.status_code == 200
        await asyncio.to_thread(lambda: django_sync.get_locks().close())


def _configure() -> None:
    if not settings.configured:
        settings.configure(LOGGING_CONFIG=None)
        django.setup()
