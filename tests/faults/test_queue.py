"""Requests and messages about a process's place in the queue are lost, cut, doubled or late: a waiter that gives up
leaves nothing, one that keeps waiting gets in, and others continue.

The last task of a process gives up while one of these requests is on its way: an acquire that queues, a transfer, a
refresh, or the confirmation of a grant.
"""

from __future__ import annotations

import asyncio

import pytest

from aiolock import LockManager
from aiolock.scripts.lock import ACQUIRE, REFRESH, TRANSFER
from tests.support.proxy import FaultProxy, Rule

from .scene import ENOUGH, NAME, Opener, Server, enter, until

REQUESTS = {
    "acquire": ACQUIRE.sha.encode(),
    "transfer": TRANSFER.sha.encode(),
    "refresh": REFRESH.sha.encode(),
    "confirmation": ACQUIRE.sha.encode(),
}
FAULTS = ("slow", "lost", "reply lost", "late")
LIVENESS = 1.5


class Scene:
    """A process behind a proxy, two with a good connection, and what they do to a lock.

    Args:
        here: the process whose requests meet a fault.
        there: one that holds the lock.
        third: one that waits, too.
    """

    def __init__(
        self, here: LockManager, there: LockManager, third: LockManager, server: Server, proxy: FaultProxy
    ) -> None:
        self.here = here.lock(NAME)
        self.there = there.lock(NAME)
        self.third = third.lock(NAME)
        self.runtime = here._runtime
        self.server = server
        self.proxy = proxy

    async def start(self, what: str, fault: str) -> tuple[asyncio.Task[int], asyncio.Task[int], Rule]:
        """Bring a request of this sort of the process's only waiter on its way; another process waits, too.

        Returns:
            The waiter, the other process's, and what happens to the request.
        """
        asked = REQUESTS[what]
        holder = self.here if what == "transfer" else self.there
        lease = await holder.acquire()
        if what == "acquire":
            rule = self._rule(fault, asked)
        waiter = asyncio.create_task(enter(self.here))
        if what == "acquire":
            await rule.hit()
        elif what != "transfer":
            await until(lambda: self.server.waiting())
        other = asyncio.create_task(enter(self.third))
        manager = (
            self.third._runtime.binding.id
        )  # a request whose reply is lost may have queued this process, or not yet
        await until(lambda: any(owner.startswith(f"{manager}:") for owner in self.server.waiting()))
        if what == "refresh":
            rule = self._rule(fault, asked)
            await rule.hit()
        elif what in ("transfer", "confirmation"):
            rule = self._rule(fault, asked)
        lease.release()
        await rule.hit()
        return waiter, other, rule

    def _rule(self, fault: str, asked: bytes) -> Rule:
        return self.proxy.cut(matching=asked) if fault == "reply lost" else self.proxy.hold("requests", 1, asked)

    def strike(self, fault: str, rule: Rule) -> None:
        """Let the connection die, or forward what was held."""
        if fault == "slow":
            rule.lift()
        elif fault != "reply lost":
            self.proxy.reset(upstream=fault == "lost")


@pytest.fixture
async def scene(either: LockManager, opened: Opener, redis_url: str, server: Server, proxy: FaultProxy) -> Scene:
    """A manager whose refreshes come twice a second."""
    runtime = either._runtime
    object.__setattr__(runtime.limits, "liveness", LIVENESS)
    object.__setattr__(runtime.limits, "liveness_ms", int(LIVENESS * 1000))
    return Scene(either, await opened(redis_url), await opened(redis_url), server, proxy)


@pytest.mark.parametrize("early", [True, False], ids=["cancelled before", "cancelled after"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("what", REQUESTS)
async def test_the_last_waiter_gives_up(scene: Scene, what: str, fault: str, early: bool) -> None:
    """Kept by QueueEntry.end and QueueEntry.taint; for a transfer by _Transfer._settle."""
    server = scene.server
    waiter, other, rule = await scene.start(what, fault)
    if early:
        waiter.cancel()
        await asyncio.wait({waiter})
    scene.strike(fault, rule)
    if not early:
        waiter.cancel()
        await asyncio.wait({waiter})
    async with asyncio.timeout(ENOUGH):
        assert await other
        assert await enter(scene.here)  # the request that repairs this was written before
    await until(lambda: not server.held())
    if fault == "late":
        rule.lift()
        await until(lambda: scene.proxy.open == 1)
        assert not server.held()
        assert await enter(scene.there)
    runtime = scene.runtime
    assert (runtime.gates, runtime.holds, runtime.queue_entries) == ({}, {}, {})


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("what", REQUESTS)
async def test_a_task_that_keeps_waiting_gets_in(scene: Scene, what: str, fault: str) -> None:
    """Each request may be lost, doubled or late, and both processes continue; fences rise."""
    waiter, other, rule = await scene.start(what, fault)
    scene.strike(fault, rule)
    async with asyncio.timeout(ENOUGH):
        fences = {await waiter, await other}
        rule.lift()
        assert await enter(scene.there) > max(fences)
    assert len(fences) == 2
    await until(lambda: not scene.server.held())


async def test_the_message_of_a_grant_is_lost(scene: Scene, server: Server, proxy: FaultProxy) -> None:
    """The next refresh learns of it, before the liveness is over. Kept by QueueEntry.judged."""
    lease = await scene.there.acquire()
    waiter = asyncio.create_task(enter(scene.here))
    await until(lambda: server.waiting())
    lost = proxy.drop("replies", matching=lambda frame: frame.startswith(b">") and b"granted" in frame)
    await lease.release()
    await lost.hit()
    granted = server.state()
    assert granted.depth == 0
    async with asyncio.timeout(LIVENESS + 3.0):
        assert await waiter == granted.fence
    await until(lambda: not server.held())


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_confirmation_is_swallowed(opened: Opener, proxy: FaultProxy, server: Server, lost: str) -> None:
    """The connection stays, but the answer never comes: it is given up, and the process asks on the next one."""
    locks, others = await opened(proxy.url, request_timeout=0.5, liveness=5.0), await opened(proxy.url)
    lease = await others.lock(NAME).acquire()
    entered = asyncio.ensure_future(locks.lock(NAME).acquire())
    await until(lambda: server.waiting())
    async with asyncio.timeout(ENOUGH):
        asked = ACQUIRE.sha.encode()
        rule = proxy.drop("requests", matching=asked) if lost == "request" else proxy.lose_reply(matching=asked)
        await lease.release()
        await rule.hit()
        second = await entered
        assert second.remaining() > 5.0
        await second.release()


@pytest.mark.parametrize("over", [False, True], ids=["alone", "others wait"])
async def test_the_connection_dies_between_a_transfer_and_its_answer(
    scene: Scene, server: Server, proxy: FaultProxy, over: bool
) -> None:
    """It comes back only after both gave up: neither the hold nor its successor is left."""
    lease = await scene.here.acquire()
    heir = asyncio.create_task(enter(scene.here))
    await asyncio.sleep(0)
    other = asyncio.create_task(enter(scene.there))
    if over:
        await until(lambda: server.waiting())
    cut = proxy.cut(matching=TRANSFER.sha.encode())
    released = lease.release()
    await cut.hit()
    proxy.refuse()
    heir.cancel()
    await asyncio.wait({heir})
    await asyncio.sleep(0.05)
    proxy.heal()
    async with asyncio.timeout(ENOUGH):
        await released
        assert await other
    await until(lambda: not server.held())


async def test_no_process_queues_twice(scene: Scene, server: Server) -> None:
    """However many tasks of a process wait, and come and go: it has one place in the queue."""
    async with scene.there:
        for count in (1, 3, 10):
            tasks = [asyncio.create_task(enter(scene.here)) for _ in range(count)]
            await until(lambda: server.waiting())
            assert len(server.waiting()) == 1
            for task in tasks[: count // 2]:
                task.cancel()
            await asyncio.sleep(0.01)
            assert len(server.waiting()) == 1
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await until(lambda: not server.waiting())
