"""Bytes of a connection that was given up arrive all the same, after the requests that were sent to repair the damage.

Each test runs twice: with CLIENT KILL, which makes the server drop the old connection before it reads on, and for a
user without that right. Then scripts must refuse what comes late, by the owner's tombstone and by their expectations.
"""

from __future__ import annotations

import asyncio

import pytest

from aiolock import Lock, LockManager
from aiolock.scripts.lock import ACQUIRE, NEST, RELEASE, RENEW, TRANSFER
from tests.support.proxy import FaultProxy, Rule

from .scene import ENOUGH, NAME, Server, enter, until

ACQUIRES = ACQUIRE.sha.encode()
NESTS = NEST.sha.encode()
RELEASES = RELEASE.sha.encode()
TRANSFERS = TRANSFER.sha.encode()
RENEWS = RENEW.sha.encode()


@pytest.fixture
def here(either: LockManager) -> Lock:
    return either.lock(NAME)


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> bool:
    return "allowed" in request.node.callspec.id


async def arrive(rule: Rule, server: Server, proxy: FaultProxy, kills: bool) -> None:
    """Forward what was held. If the server ended its connection it goes nowhere; otherwise wait until it ran."""
    await until(lambda: proxy.open == 1 + (not kills))
    before = server.scripts_run()
    rule.lift()
    if not kills:
        await server.ran(1, before)
        await until(lambda: proxy.open == 1)  # nothing more to forward


async def test_an_acquire_after_its_undo(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """C4. Kept by Handshake.greet: CLIENT KILL; by release.lua: `SET KEYS[4]`; by acquire.lua: `finished`."""
    held = proxy.hold("requests", 1, ACQUIRES)
    task = asyncio.create_task(enter(here))
    await held.hit()
    away = proxy.hold("requests", 1, b"HELLO")
    proxy.reset(upstream=False)
    await away.hit()  # the loss was noticed
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not server.tombstones()
    away.lift()
    await until(lambda: server.tombstones())  # the undo has landed
    await arrive(held, server, proxy, kills)
    assert not server.held()
    async with asyncio.timeout(ENOUGH), there as lease:
        assert not lease.abandoned


async def test_an_acquire_whose_undo_was_written_before_the_line_died(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """C4 (cancelled first). Kept by Release.taint: a repeated release leaves a tombstone."""
    held = proxy.hold("requests", 1, ACQUIRES)
    task = asyncio.create_task(enter(here))
    await held.hit()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.005)
    proxy.reset(upstream=False)
    await until(lambda: server.tombstones())
    await arrive(held, server, proxy, kills)
    assert not server.held()
    assert await enter(there)


@pytest.mark.parametrize("turns", range(5))
async def test_an_acquire_that_is_cancelled_as_its_line_dies(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, either: LockManager, kills: bool, turns: int
) -> None:
    """C4, cancel and loss within a few turns of the loop: the undo may never have been written.

    Kept by QueueEntry.unanswered: `self.taint()`.
    """
    held = proxy.hold("requests", 1, ACQUIRES)
    task = asyncio.create_task(enter(here))
    await held.hit()
    session = either._runtime.backend._session  # type: ignore[attr-defined]
    task.cancel()
    for _ in range(turns):
        await asyncio.sleep(0)
    session.abandon(ConnectionResetError("by the test"))
    with pytest.raises(asyncio.CancelledError):
        await task
    await proxy.connected(2)
    await until(lambda: either._runtime.backend._session is not None)  # type: ignore[attr-defined]
    assert await enter(either.lock("another"))  # the request that repairs this was written before
    await arrive(held, server, proxy, kills)
    assert not server.held()
    assert await enter(there)


async def test_an_acquire_after_its_repetition_was_granted_and_released(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """C4 with a resend: no owner is resurrected."""
    held = proxy.hold("requests", 1, ACQUIRES)
    task = asyncio.create_task(enter(here))
    await held.hit()
    proxy.reset(upstream=False)
    async with asyncio.timeout(ENOUGH):
        await task
    await arrive(held, server, proxy, kills)
    assert not server.held()
    async with there as lease:
        assert not lease.abandoned


async def test_an_acquire_while_its_repetition_is_held(
    here: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """A copy is granted again, and changes nothing."""
    held = proxy.hold("requests", 1, ACQUIRES)
    task = asyncio.ensure_future(here.acquire())
    await held.hit()
    proxy.reset(upstream=False)
    async with asyncio.timeout(ENOUGH):
        lease = await task
    await arrive(held, server, proxy, kills)
    assert server.depth() == 1
    await lease.release()
    assert not server.held()


async def test_a_release_after_its_repetition(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """Invariant 4: the successor keeps its lock. Kept by release.lua: `name.owner ~= owner`."""
    lease = await here.acquire()
    held = proxy.hold("requests", 1, RELEASES)
    release = asyncio.ensure_future(_await(lease.release()))
    await held.hit()
    proxy.reset(upstream=False)
    async with asyncio.timeout(ENOUGH):
        await release
        async with there:
            await arrive(held, server, proxy, kills)
            assert server.depth() == 1


async def _await(awaitable: object) -> None:
    await awaitable  # type: ignore[misc]


async def test_a_nested_acquire_after_everything_was_released(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """C2: it creates nothing. Kept by nest.lua: `name.owner ~= ARGV[1]`."""
    async with asyncio.timeout(ENOUGH), here:
        held = proxy.hold("requests", 1, NESTS)
        nested = asyncio.create_task(_cut_off(proxy, held))
        async with here:
            pass
        await nested
    await arrive(held, server, proxy, kills)
    assert not server.held()
    assert await enter(there)


async def _cut_off(proxy: FaultProxy, held: Rule) -> None:
    await held.hit()
    proxy.reset(upstream=False)


async def test_a_nested_acquire_while_the_outer_one_lives_on(
    here: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """The depth is a mirror: a late copy may raise it, and the end of the hold still ends it."""
    async with asyncio.timeout(ENOUGH), here:
        held = proxy.hold("requests", 1, NESTS)
        nested = asyncio.create_task(_cut_off(proxy, held))
        async with here:
            pass
        await nested
        await arrive(held, server, proxy, kills)
        assert server.depth() == (1 if kills else 2)
    assert not server.held()


async def test_a_nested_acquire_after_another_owner_took_the_lock(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """C2. Kept by nest.lua: `name.owner ~= ARGV[1]`."""
    async with asyncio.timeout(ENOUGH), here:
        held = proxy.hold("requests", 1, NESTS)
        nested = asyncio.create_task(_cut_off(proxy, held))
        async with here:
            pass
        await nested
    async with there as lease:
        await arrive(held, server, proxy, kills)
        assert server.depth() == 1
        info = await there.info()
        assert info is not None
        assert info.fence == lease.fence


@pytest.mark.parametrize("dies", [False, True], ids=["line lives", "line dies"])
async def test_a_cancelled_nested_acquire_leaves_the_outer_one(
    here: Lock, proxy: FaultProxy, server: Server, kills: bool, dies: bool
) -> None:
    """C3 (a): its undo is a release to the local depth, never to 0. Kept by Gate.lower: `hold.depth`."""
    async with asyncio.timeout(ENOUGH), here as lease:
        held = proxy.hold("requests", 1, NESTS)
        task = asyncio.create_task(_share(here, lease.owner))
        await held.hit()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if dies:
            proxy.reset(upstream=False)
            await proxy.connected(2)
        else:
            held.lift()
        async with here:
            assert lease.depth == 2
        if dies:
            await arrive(held, server, proxy, kills)
        assert server.locked()
        assert not lease.lost
    assert not server.held()


async def _share(lock: Lock, owner: object) -> None:
    async with lock.acquire(owner=owner):  # type: ignore[arg-type]
        pass


async def test_a_request_of_a_task_that_keeps_waiting(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """C3 (b): the request was repeated, and a copy that comes when the task has the lock changes nothing.

    Kept by acquire.lua: `mine`.
    """
    lease = await there.acquire()
    held = proxy.hold("requests", 1, ACQUIRES)
    waiter = asyncio.ensure_future(here.acquire())
    await held.hit()
    proxy.reset(upstream=False)
    await until(lambda: server.waiting())
    await lease.release()
    async with asyncio.timeout(ENOUGH):
        second = await waiter
        assert second.fence > lease.fence
        await until(lambda: server.depth() == 1)  # it was confirmed
        await arrive(held, server, proxy, kills)
        assert server.depth() == 1
        assert not server.waiting()
        await second.release()
    assert not server.held()


async def test_an_acquire_after_its_repetition_was_refused(
    either: LockManager, here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """The task does not wait, and got nothing: a copy that comes when the lock is free gets nothing either.

    Kept by QueueEntry.end: `not self.tainted`.
    """
    lease = await there.acquire()
    held = proxy.hold("requests", 1, ACQUIRES)
    attempt = asyncio.ensure_future(_try(here))
    await held.hit()
    proxy.reset(upstream=False)
    async with asyncio.timeout(ENOUGH):
        assert not await attempt
        assert await enter(either.lock("another"))  # the request that repairs this was written before
    await lease.release()
    await arrive(held, server, proxy, kills)
    assert not server.held()


async def _try(lock: Lock) -> bool:
    return await lock.try_acquire() is not None


async def test_a_place_in_the_queue_after_it_was_given_up(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """The last task of the process gave up while its request was held: a copy that comes late queues no one.

    Kept by acquire.lua: `finished`.
    """
    async with there as lease:
        held = proxy.hold("requests", 1, ACQUIRES)
        waiter = asyncio.create_task(enter(here))
        await held.hit()
        proxy.reset(upstream=False)
        await until(lambda: server.waiting())
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await until(lambda: not server.waiting())
        await arrive(held, server, proxy, kills)
        assert not server.waiting()
        assert server.state().fence == lease.fence
    assert await enter(there)


async def test_a_transfer_after_its_repetition(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """H2. Kept by transfer_local.lua: `EXISTS KEYS[5]`, and `if held`."""
    lease = await here.acquire()
    successor = asyncio.create_task(enter(here))
    await asyncio.sleep(0)
    held = proxy.hold("requests", 1, TRANSFERS)
    lease.release()
    await held.hit()
    proxy.reset(upstream=False)
    async with asyncio.timeout(ENOUGH):
        assert await successor > lease.fence
        async with there:
            await arrive(held, server, proxy, kills)
            assert server.depth() == 1
    assert not server.held()


async def test_a_transfer_after_both_gave_up(
    here: Lock, there: Lock, proxy: FaultProxy, server: Server, kills: bool
) -> None:
    """H2 (b). The successor is cancelled while the connection is down, so both are released instead of handed on."""
    lease = await here.acquire()
    successor = asyncio.create_task(enter(here))
    await asyncio.sleep(0)
    held = proxy.hold("requests", 1, TRANSFERS)
    lease.release()
    await held.hit()
    successor.cancel()
    with pytest.raises(asyncio.CancelledError):
        await successor
    await asyncio.sleep(0.005)
    proxy.reset(upstream=False)
    async with asyncio.timeout(ENOUGH):
        assert await enter(there) > lease.fence
    await until(lambda: server.tombstones() == 2)
    await arrive(held, server, proxy, kills)
    assert not server.held()


async def test_a_renewal_after_the_release(
    proxy: FaultProxy, here: Lock, there: Lock, server: Server, either: LockManager, kills: bool
) -> None:
    """A renewal never creates and never shortens. Kept by renew.lua."""
    lease = await either.lock(NAME, ttl=20.0).acquire()
    held = proxy.hold("requests", 1, RENEWS)
    renewal = asyncio.ensure_future(_await(lease.renew()))
    await held.hit()
    proxy.reset(upstream=False)
    await proxy.connected(2)
    async with asyncio.timeout(ENOUGH):
        await asyncio.gather(renewal, return_exceptions=True)
        await lease.release()
    await arrive(held, server, proxy, kills)
    assert not server.held()
    async with there:
        assert server.locked()


async def test_a_late_renewal_does_not_shorten(here: Lock, proxy: FaultProxy, server: Server, kills: bool) -> None:
    """Kept by renew.lua: `math.max(name.expires`."""
    async with asyncio.timeout(ENOUGH), here as lease:
        held = proxy.hold("requests", 1, RENEWS)
        renewal = asyncio.ensure_future(_await(lease.renew()))
        await held.hit()
        proxy.reset(upstream=False)
        await asyncio.gather(renewal, return_exceptions=True)
        await lease.renew(ttl=100.0)
        await arrive(held, server, proxy, kills)
        assert server.state().pttl > 90_000
