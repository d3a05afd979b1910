"""One server under two names would be two votes: its run_id gives it away."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import ConfigurationError, LockManager
from aiolock.backends.quorum import QuorumBackend
from aiolock.testing.server import RedisServer

from .world import NAME, Link, Trio, away


async def test_one_server_under_two_names_is_refused(trio: Trio) -> None:
    """Kept by Members.twin."""
    stores = trio.stores
    links = [Link(store, trio.clock) for store in (stores[0], stores[1], stores[0])]
    with pytest.raises(
        ConfigurationError, match=r"node 1 and node 3 are one server \(run_id .*\): name each server only once"
    ):
        await trio.manager(links).__aenter__()
    assert all(link._loop is None for link in links)


async def test_a_server_without_a_run_id_is_accepted(trio: Trio) -> None:
    links = [Link(trio.stores[i], trio.clock) for i in (0, 1, 0)]
    for link in links:
        link.run_id = ""
    async with trio.manager(links) as locks:
        assert not await locks.lock(NAME).is_locked()


async def test_a_name_that_starts_to_mean_another_server(
    trio: Trio, links: list[Link], caplog: pytest.LogCaptureFixture
) -> None:
    """It has no vote until it means a server of its own again. Kept by QuorumBackend._connected_again."""
    own = links[2].run_id
    async with trio.manager(links) as locks:
        with away(links[2]):
            links[2].run_id = links[1].run_id
        assert "node 2 and node 3 are one server" in caplog.text
        async with locks.lock(NAME):
            assert trio.held() == [True, True, False]
        links[2].run_id = own
        backend = locks._runtime.backend
        assert isinstance(backend, QuorumBackend)
        async with asyncio.timeout(10):
            while "ready=3" not in repr(backend):  # noqa: ASYNC110 - Node.open tries again on the real clock
                await asyncio.sleep(0.005)
        async with locks.lock(NAME):
            assert trio.held() == [True] * 3


async def test_real_servers_identify_themselves(redis_server: RedisServer) -> None:
    """The third one is away, so that no majority is there before both have said who they are."""
    port = redis_server.url.rpartition(":")[2]
    urls = [f"redis://127.0.0.1:{port}", f"redis://localhost:{port}", "redis://127.0.0.1:1"]
    with pytest.raises(
        ConfigurationError, match=r"node 1 \(127.0.0.1:\d+\) and node 2 \(localhost:\d+\)|node 2 .* and node 1"
    ):
        await LockManager.quorum(urls).__aenter__()
