"""Observers are told of each connection that is lost, and of its return, whatever the manager is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from aiolock import LockManager
from aiolock.backends.redis import RedisBackend
from aiolock.events import Disconnected, Event, Reconnected
from tests.support import redis_cli

from .scene import until

Make = Callable[..., LockManager]


def hang_up(url: str) -> None:
    """Let the server close every connection but this one."""
    with redis_cli.client(url) as link:
        for kind in ("normal", "pubsub"):
            link.execute_command("CLIENT", "KILL", "TYPE", kind)


def single(request: pytest.FixtureRequest) -> tuple[Make, str, list[str]]:
    url = request.getfixturevalue("redis_url")
    return (lambda **options: LockManager(url, **options)), url, [at(url)]


def replicated(request: pytest.FixtureRequest) -> tuple[Make, str, list[str]]:
    url = request.getfixturevalue("replicated").url
    return (lambda **options: LockManager(url, min_replicas=1, **options)), url, [at(url)] * 2


def quorum(request: pytest.FixtureRequest) -> tuple[Make, str, list[str]]:
    urls = request.getfixturevalue("three_urls")
    return (lambda **options: LockManager.quorum(urls, **options)), urls[1], [at(urls[1])]


def sentinel(request: pytest.FixtureRequest) -> tuple[Make, str, list[str]]:
    watched = request.getfixturevalue("sentinels")

    def make(**options: Any) -> LockManager:
        return LockManager.sentinel(watched.addresses, service=watched.service, **options)

    return make, watched.master().url, [watched.service] * 2


def cluster(request: pytest.FixtureRequest) -> tuple[Make, str, list[str]]:
    nodes = request.getfixturevalue("masters_only")
    (owner,) = [node for node in nodes.masters if serves(nodes, node)]
    return (lambda **options: LockManager.cluster(nodes.urls[:1], **options)), owner.url, [at(owner.url)]


def serves(nodes: Any, node: Any) -> bool:
    return any(first <= nodes.slot("a") <= last and owner == node.id for first, last, owner in nodes._map(node))


def at(url: str) -> str:
    """Where a URL leads, as events name it."""
    return RedisBackend(url).address


@pytest.mark.parametrize(
    "place",
    [
        single,
        replicated,
        quorum,
        pytest.param(sentinel, marks=pytest.mark.takes_long),
        pytest.param(cluster, marks=pytest.mark.takes_long),
    ],
    ids=lambda place: place.__name__,
)
async def test_lost_and_back(
    request: pytest.FixtureRequest, place: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once a connection, when the new one is being made, and the log says each once."""
    make, url, addresses = place(request)
    told: list[Event] = []
    known: list[object] = []

    def observer(event: Event) -> None:
        told.append(event)
        if isinstance(event, Disconnected) and place is single:
            known.append(locks._runtime.backend.unreachable)

    caplog.set_level("INFO", "aiolock")
    async with make(observer=observer, request_timeout=10.0, ttl=60.0) as locks, locks.lock("a") as lease:
        assert [event for event in told if isinstance(event, Disconnected | Reconnected)] == []
        caplog.clear()
        hang_up(url)
        await until(lambda: sum(isinstance(event, Reconnected) for event in told) == len(addresses))
        assert lease.remaining() > 30
    lost = [event for event in told if isinstance(event, Disconnected)]
    back = [event for event in told if isinstance(event, Reconnected)]
    assert [event.address for event in lost] == addresses == [event.address for event in back]
    assert all(told.index(one) < told.index(other) for one, other in zip(lost, back, strict=True))
    assert all(0 < event.after < 10 for event in back)
    assert all(isinstance(event.error, ConnectionError | redis.ConnectionError) for event in lost)
    assert all(event.explanation.startswith("was lost (") for event in lost)
    assert None not in known
    messages = [record.getMessage() for record in caplog.records if record.name == "aiolock.redis"]
    assert [text for text in messages if text.startswith(f"the connection to {addresses[0]} was lost")]
    assert sum("connected to" in text and "after" in text for text in messages) == len(addresses)
