"""Quorums of real servers: restarted empty, hanging, behind a slow link, skewed, and without a majority."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest
import redis

from aiolock import Lock, LockLost, LockManager, LossReason, QuorumError
from aiolock.scripts.lock import ACQUIRE, CONFIRM, RELEASE
from aiolock.testing.server import RedisServer
from tests.support import locks as looks
from tests.support import redis_cli
from tests.support.forked import Forked
from tests.support.proxy import FaultProxy

from .world import NAME, keys_of

ENOUGH = 10.0
"""Seconds: far longer than anything here needs, far shorter than any ttl or recheck that could help instead."""
TTL = 60.0
"""Seconds: a node may take a twentieth of it and half the request timeout; a noisy machine stands still for less."""


async def until(check: Callable[[], object], seconds: float = ENOUGH) -> None:
    """Poll for a change that is not announced."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - what servers do sets no event here
            await asyncio.sleep(0.005)


class Nodes:
    """The servers, and a view of each from outside."""

    def __init__(self, servers: Sequence[RedisServer], links: Sequence[redis.Redis]) -> None:
        self.servers = servers
        self.links = links
        self.urls = [server.url for server in servers]

    def held(self) -> list[bool]:
        return [looks.held(link) for link in self.links]

    def fences(self) -> list[int]:
        return [looks.state(link).fence for link in self.links]

    def tombstones(self) -> list[int]:
        """The fences of the name: a node that released one before may have kept its own, if that went unanswered."""
        return [len(link.keys(f"{keys_of().lock}:dead:*")) for link in self.links]  # type: ignore[arg-type]

    def connections(self) -> list[int]:
        return [len(link.client_list()) for link in self.links]  # type: ignore[arg-type]


def looking(servers: Sequence[RedisServer], stack: ExitStack) -> Nodes:
    return Nodes(servers, [stack.enter_context(redis_cli.client(server.url)) for server in servers])


@pytest.fixture
def nodes(three_servers: list[RedisServer], three_urls: list[str]) -> Iterator[Nodes]:
    """Shared servers, empty."""
    with ExitStack() as stack:
        yield looking(three_servers, stack)


@pytest.fixture
def own(three_servers: list[RedisServer]) -> Iterator[Nodes]:
    """Servers for this test alone, to kill, freeze and restart."""
    with ExitStack() as stack:
        yield looking([stack.enter_context(RedisServer.start(owned=True)) for _ in range(3)], stack)


class Opener:
    """Enters managers, and closes them at the end of the test."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def __call__(self, urls: Sequence[str], **options: Any) -> LockManager:
        settings: dict[str, Any] = {"ttl": TTL, "recheck": 60.0, "request_timeout": 6.0, **options}
        return await self._stack.enter_async_context(LockManager.quorum(urls, **settings))


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    async with AsyncExitStack() as stack:
        yield Opener(stack)


@pytest.fixture
async def proxies(nodes: Nodes) -> AsyncIterator[list[FaultProxy]]:
    """A faulty link to each of the shared servers."""
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(FaultProxy(server.host, server.port)) for server in nodes.servers]
        yield proxies
        for proxy in proxies:
            proxy.heal()


async def enter(lock: Lock, timeout: float = ENOUGH) -> int:
    async with lock.acquire(timeout=timeout) as lease:
        return lease.fence


# A node that restarted empty.


async def test_a_node_that_restarted_empty(own: Nodes, opened: Opener) -> None:
    """One costs nothing; the second makes a majority, and is noticed as soon as its connection is back."""
    locks, others = await opened(own.urls), await opened(own.urls)
    with pytest.raises(LockLost) as caught:
        async with asyncio.timeout(2 * ENOUGH), locks.lock(NAME) as lease:
            backend = locks._runtime.backend
            own.servers[2].restart()
            await until(lambda: own.connections()[2] >= 3)
            await lease.renew()
            assert own.held() == [True, True, False]
            assert await others.lock(NAME).try_acquire() is None
            assert not lease.lost
            own.servers[1].restart()
            await asyncio.sleep(60)
    assert caught.value.reason is LossReason.DELETED
    assert backend.nodes == 3
    await until(lambda: own.connections()[1] >= 3)
    assert await enter(others.lock(NAME)) > lease.fence


# A node that hangs.


async def test_a_node_that_hangs(own: Nodes, opened: Opener) -> None:
    """SIGSTOP: its connections stay, nothing is answered. It is not waited for."""
    locks, others = await opened(own.urls), await opened(own.urls)
    fences = [await enter(locks.lock(NAME))]
    own.servers[0].freeze()
    try:
        async with asyncio.timeout(ENOUGH):
            for lock in (locks.lock(NAME), others.lock(NAME)) * 3:
                async with lock as lease:
                    fences.append(lease.fence)
                    await lease.renew()
                    assert lease.remaining() > TTL / 2
    finally:
        own.servers[0].thaw()
    assert fences == sorted(set(fences))
    # Now it does all that it was told in the meantime, or finds tombstones: no key stays.
    await until(lambda: not any(own.held()))


# A node behind a slow link.


async def test_a_node_behind_a_slow_link(nodes: Nodes, proxies: list[FaultProxy], opened: Opener) -> None:
    """It is not waited for, and joins in its own time, with the same fence."""
    locks = await opened([*nodes.urls[:2], proxies[2].url])
    await enter(locks.lock("warm"))
    proxies[2].delay("requests", 0.5)
    async with locks.lock(NAME) as lease:
        assert nodes.held() == [True, True, False]
        await until(lambda: nodes.fences()[2] == lease.fence)
        assert nodes.held() == [True] * 3
        assert nodes.fences() == [lease.fence] * 3
    await until(lambda: not any(nodes.held()))


async def test_two_slow_links_are_waited_for(nodes: Nodes, proxies: list[FaultProxy], opened: Opener) -> None:
    """The time that takes is taken off the lease."""
    locks = await opened([proxies[0].url, proxies[1].url, nodes.urls[2]])
    await enter(locks.lock("warm"))
    for proxy in proxies[:2]:
        proxy.delay("replies", 0.3)
    async with locks.lock(NAME) as lease:
        assert lease.remaining() < TTL - 3.0 - TTL / 100 - 0.3
        assert lease.remaining() < looks.state(nodes.links[0]).pttl / 1000


# A node with a skewed clock.


async def test_a_fence_from_a_clock_that_is_ahead(nodes: Nodes, proxies: list[FaultProxy], opened: Opener) -> None:
    """You cannot set a server's clock from here, but you can write what it would write: a fence far ahead. It is passed
    on to a node with a correct clock, and so outlives its own. test_hold.py runs stores with skewed clocks.
    """
    ahead = 2**51
    looks.change(nodes.links[0], fence=ahead)
    for proxy in proxies:
        proxy.refuse()
    with_it = await opened([*nodes.urls[:2], proxies[2].url])
    assert await enter(with_it.lock(NAME)) == ahead + 1
    without_it = await opened([proxies[0].url, *nodes.urls[1:]])
    assert await enter(without_it.lock(NAME)) == ahead + 2
    for link in nodes.links:
        assert looks.state(link).kept > 23 * 3600 * 1000


async def test_a_node_whose_key_expires_early(nodes: Nodes, opened: Opener) -> None:
    """As with a clock that was stepped forward: one vote less, and no one gets in."""
    locks, others = await opened(nodes.urls), await opened(nodes.urls)
    async with locks.lock(NAME) as lease:
        await until(lambda: all(nodes.held()))
        looks.let_expire(nodes.links[1])
        await until(lambda: not nodes.held()[1])
        await lease.renew()
        assert lease.remaining() > TTL / 2
        assert await others.lock(NAME).try_acquire() is None
    async with others.lock(NAME).acquire(timeout=ENOUGH) as successor:
        assert successor.fence > lease.fence


# No majority.


async def test_no_majority(own: Nodes, opened: Opener) -> None:
    """A holder loses the lock before it is free; a new attempt gets an error; a waiter keeps waiting; afterwards all is
    well.
    """
    locks = await opened(own.urls, ttl=6.8, margin=2.3)
    others = await opened(own.urls)
    left: list[int] = []

    async def hold() -> None:
        async with locks.lock(NAME) as lease:
            inside.set_result(lease.fence)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                left.append(looks.state(own.links[0]).pttl)
                raise

    inside: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    holder = asyncio.create_task(hold())
    fence = await inside
    waiter = asyncio.create_task(enter(others.lock(NAME), timeout=60))
    await until(lambda: own.links[0].pubsub_numsub(keys_of().free)[0][1])  # type: ignore[index]
    own.servers[1].kill()
    own.servers[2].kill()
    with pytest.raises(QuorumError, match="2 of 3") as caught:
        await locks.lock("other").acquire()
    assert caught.value.transient
    assert len(caught.value.outcomes) == 3
    assert caught.value.outcomes[0].startswith(f"node 1 (127.0.0.1:{own.servers[0].port}): ")
    with pytest.raises(QuorumError):
        await opened(own.urls)
    with pytest.raises(LockLost) as lost:
        await holder
    assert lost.value.reason is LossReason.UNREACHABLE
    assert left[0] > 0
    assert not waiter.done()
    own.servers[1].restart()
    own.servers[2].restart()
    async with asyncio.timeout(ENOUGH):
        assert await waiter > fence
    with contextlib.suppress(QuorumError):  # a connection may not be back yet
        await enter(locks.lock("other"))
    await until(lambda: not any(own.held()))


# Fences.


async def test_h8_no_one_enters_before_a_majority_knows_the_fence(
    nodes: Nodes, proxies: list[FaultProxy], opened: Opener
) -> None:
    """H8, step by step: A has nodes 1 and 2, with 10 and 12; the write-back to 1 is lost; B has 1 and 3."""
    base = 2**52
    for link, fence in zip(nodes.links, (9, 11, 5), strict=True):
        looks.change(link, fence=base + fence)
    proxies[2].refuse()
    one = await opened([proxies[0].url, *nodes.urls[1:2], proxies[2].url])
    lost = proxies[0].drop("requests", matching=CONFIRM.sha.encode())
    with pytest.raises(QuorumError, match="did not confirm"):
        await one.lock(NAME).acquire()
    assert lost.frames
    proxies[0].reset()
    async with asyncio.timeout(ENOUGH):
        while True:
            with contextlib.suppress(QuorumError):
                first = await enter(one.lock(NAME))
                break
            await asyncio.sleep(0.01)
    assert first >= base + 12
    assert nodes.fences()[0] == nodes.fences()[1] == first
    proxies[1].refuse()
    two = await opened([nodes.urls[0], proxies[1].url, nodes.urls[2]])
    assert await enter(two.lock(NAME)) > first


async def test_an_undo_whose_request_is_lost(nodes: Nodes, proxies: list[FaultProxy], opened: Opener) -> None:
    """Cancelled in flight; node 1 executed the acquire, and the undo dies on its way there."""
    locks = await opened([*(proxy.url for proxy in proxies[:2]), nodes.urls[2]])
    await enter(locks.lock("warm"))
    replies = proxies[0].hold("replies")
    held = proxies[1].hold("requests", matching=ACQUIRE.sha.encode())
    undo = proxies[0].hold("requests", matching=RELEASE.sha.encode())
    attempt = asyncio.create_task(enter(locks.lock(NAME)))
    await until(lambda: nodes.held()[0])
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await undo.hit()
    proxies[0].reset()
    for rule in (undo, replies, held):
        rule.lift()
    await until(lambda: not any(nodes.held()))
    await until(lambda: nodes.tombstones()[0] == 1)


# Many at once.


async def test_waiting_and_costs(nodes: Nodes, opened: Opener) -> None:
    """One connection per node and manager, whatever happens on it; a message wakes a waiter."""
    locks, others = await opened(nodes.urls), await opened(nodes.urls)
    before = nodes.connections()
    async with locks.lock(NAME):
        waiters = [asyncio.create_task(enter(manager.lock(NAME))) for manager in (locks, others) * 10]
        leases = [await locks.lock(f"n{number}").acquire() for number in range(20)]
        await until(lambda: all(link.pubsub_numsub(keys_of().free)[0][1] for link in nodes.links))  # type: ignore[index]
        assert nodes.connections() == before
    fences = await asyncio.gather(*waiters)
    assert len(set(fences)) == 20
    for lease in leases:
        await lease.release()
    assert nodes.connections() == before
    await until(lambda: not any(nodes.held()))


COUNTER = """
import asyncio, sys
from pathlib import Path
from aiolock import LockManager

async def main(path, *urls):
    async with LockManager.quorum(urls, ttl=60.0) as locks:
        for _ in range(15):
            async with locks.lock("order:42") as lease:
                text = path.read_text()
                await asyncio.sleep(0.001)
                path.write_text(f"{text}{lease.fence}\\n")

asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
"""


async def test_no_entry_of_three_processes_is_lost(nodes: Nodes, tmp_path: Any) -> None:
    """Invariants 1 and 2 across processes: read, wait, write."""
    journal = tmp_path / "journal"
    journal.touch()
    workers = [Forked(["-c", COUNTER, str(journal), *nodes.urls], env=os.environ, cwd=tmp_path) for _ in range(3)]
    try:
        await until(lambda: all(worker.poll() is not None for worker in workers), seconds=60.0)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    fences = [int(line) for line in journal.read_text().splitlines()]
    assert len(fences) == 45
    assert fences == sorted(set(fences))
