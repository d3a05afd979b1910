"""A hold on three nodes: it lives while two keep it, and no longer."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, Lock, LockLost, LockManager, LossReason, QuorumError
from aiolock.core.policy import check_margin
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import DIRTY_MS
from aiolock.scripts.lock import FORCE_RELEASE
from tests.support import locks as looks

from .world import NAME, TTL, Link, Trio, away, calls_of

MARGIN = check_margin("", None, TTL)
DRIFT = TTL / 100 + 0.002


async def test_the_deadline_is_the_second_of_three_minus_the_drift(trio: Trio, here: Lock) -> None:
    """Kept by Tally.lasting: `ends[-self.quorum]`."""
    async with here as lease:
        assert lease.remaining() == pytest.approx(TTL - MARGIN - DRIFT, abs=0.002)
        looks.shorten(trio.stores[0], 1_000)  # its clock jumped
        await lease.renew()
        assert lease.remaining() == pytest.approx(TTL - MARGIN - DRIFT, abs=0.002)


async def test_the_deadline_counts_from_when_each_node_was_asked(trio: Trio, links: list[Link], here: Lock) -> None:
    """Two nodes answer late: their grants began when they were asked. Broken by counting from the reply."""
    links[1].hang()
    links[2].hang()
    attempt = asyncio.ensure_future(here.acquire())
    await trio.clock.advance(1.0)
    links[1].thaw()
    await trio.clock.advance(0)
    lease = await attempt
    assert lease.remaining() == pytest.approx(TTL - 1.0 - MARGIN - DRIFT, abs=0.002)
    links[2].thaw()
    await lease.release()


async def test_it_is_renewed_by_two_of_three(trio: Trio, here: Lock, there: Lock) -> None:
    async with here as lease:
        trio.drop(1)
        await trio.clock.advance(10 * TTL)
        assert not lease.lost
        assert await there.try_acquire() is None
        assert trio.held() == [True, False, True]


async def test_it_is_renewed_while_a_node_hangs(trio: Trio, links: list[Link], here: Lock) -> None:
    """Kept by QuorumRequest.judge: it does not wait for missing answers."""
    async with here as lease:
        links[2].hang()
        await trio.clock.advance(3 * TTL)
        assert not lease.lost
        links[2].thaw()


@pytest.mark.parametrize("dropped", [(0, 1), (1, 2), (0, 1, 2)])
async def test_it_is_lost_with_the_majority(trio: Trio, here: Lock, dropped: tuple[int, ...]) -> None:
    with pytest.raises(LockLost) as caught:
        async with here:
            trio.drop(*dropped)
            await trio.clock.advance(TTL / 3 + 0.1)
            await asyncio.Event().wait()
    assert caught.value.reason is LossReason.DELETED


async def test_it_is_lost_before_a_hanging_majority_lets_it_go(trio: Trio, links: list[Link], here: Lock) -> None:
    """Invariant 6, on the two nodes that do not answer and on the one that does."""
    held: list[bool] = []

    async def hold() -> None:
        async with here:
            try:
                await asyncio.Event().wait()
            finally:
                held.extend(trio.held())

    task = asyncio.ensure_future(hold())
    await trio.clock.advance(0)
    links[0].hang()
    links[2].hang()
    await trio.clock.advance(TTL)
    with pytest.raises(LockLost) as caught:
        await task
    assert caught.value.reason is LossReason.UNREACHABLE
    assert held == [True] * 3
    for link in links:
        link.thaw()


async def test_one_node_with_another_holder_is_no_loss(trio: Trio, here: Lock) -> None:
    thief = calls_of().acquire(Bid("thief:1", 600_000, 0, "a thief"))
    async with here as lease:
        trio.drop(2)
        Link(trio.stores[2], trio.clock)._execute(thief)
        await trio.clock.advance(TTL)
        assert not lease.lost
    assert trio.holders() == ["", "", "thief"]


async def test_a_thief_on_two_nodes_is_a_loss(trio: Trio, here: Lock) -> None:
    thief = calls_of().acquire(Bid("thief:1", 600_000, 0, "a thief"))
    with pytest.raises(LockLost) as caught:
        async with here:
            trio.drop(1, 2)
            for node in (1, 2):
                Link(trio.stores[node], trio.clock)._execute(thief)
            await trio.clock.advance(TTL)
            await asyncio.Event().wait()
    assert caught.value.reason is LossReason.TAKEN_OVER


async def test_nested_by_majority(trio: Trio, here: Lock) -> None:
    one = await here.acquire()
    trio.drop(0)
    async with here as two:
        assert two.fence == one.fence
        assert [looks.state(store).depth for store in trio.stores] == [0, 2, 2]
    trio.drop(1)
    with pytest.raises(LockLost):
        await here.acquire()
    assert one.lost
    with pytest.raises(LockLost):
        await one.release()
    await trio.clock.advance(0)
    assert trio.held() == [False] * 3


async def test_a_release_reaches_a_node_that_was_away(trio: Trio, links: list[Link], here: Lock) -> None:
    """Kept by QuorumRelease, which outlives its decision."""
    lease = await here.acquire()
    with away(links[1]):
        await lease.release()
        assert trio.held() == [False, True, False]
        await trio.clock.advance(TTL / 2)
    await trio.clock.advance(0)
    assert trio.held() == [False] * 3


async def test_a_release_that_never_succeeds_is_given_up_with_the_ttl(
    trio: Trio, links: list[Link], here: Lock
) -> None:
    """A node that stays away accumulates nothing. Kept by QuorumRelease.judge: it withdraws."""
    lease = await here.acquire()
    with away(links[1]):
        await lease.release()
        await trio.clock.advance(TTL + 1)
        assert all(call.withdrawn for call in links[1]._backlog)
    assert links[1].calls[-1] != "release"


async def test_a_release_of_a_lock_that_a_majority_lost_reports_it(trio: Trio, here: Lock) -> None:
    """H10, by majority."""
    with pytest.raises(LockLost):
        async with here:
            trio.drop(0, 2)
    async with here:
        trio.drop(0)


async def test_a_release_that_two_nodes_did_not_answer_is_repeated(trio: Trio, links: list[Link], here: Lock) -> None:
    """What the nodes still owe is written again; you are not told that the lock was gone the second time. Kept by
    QuorumRelease.again.
    """
    lease = await here.acquire()
    for link in links[1:]:
        link.hang()
    leaving = lease.release()
    for link in links[1:]:
        link.die(executed=True)
    await leaving
    await trio.clock.advance(0)
    assert trio.held() == [False] * 3
    assert trio.tombstones() == [0, 1, 1]


async def test_the_state_is_kept_for_a_day(trio: Trio, here: Lock) -> None:
    """H8: a skewed node must remember. Kept by QuorumRelease.args."""
    async with here:
        pass
    for store in trio.stores:
        assert looks.state(store).kept == DIRTY_MS


async def test_abandoned_on_one_node_is_abandoned(trio: Trio, links: list[Link], here: Lock) -> None:
    """Its holder may have had that node and one that is away now. Kept by QuorumAcquire: `any`."""
    thief = calls_of()
    for node in (0, 1):
        links[node]._execute(thief.acquire(Bid("thief:1", 100, 0, "a thief")))
    await trio.clock.advance(1.0)
    with away(links[0]):
        async with here as lease:
            assert lease.abandoned
    await trio.clock.advance(0)


# Looking and forcing.


async def test_info_has_the_fence_of_a_majority(trio: Trio, lines: list[Link], here: Lock, there: Lock) -> None:
    """A node that granted late has a fence of its own until it is told. Kept by majority.seen: `sharing < …`."""
    async with here as lease:
        await trio.clock.advance(0)
        looks.change(trio.stores[0], fence=lease.fence + 7)
        lines[2].hang()
        asking = asyncio.ensure_future(there.info())
        await trio.clock.advance(0)
        assert not asking.done()
        lines[2].thaw()
        await trio.clock.advance(0)
        info = await asking
        assert info is not None
        assert info.fence == lease.fence
        lines[2].hang()
        asking = asyncio.ensure_future(there.info())
        await trio.clock.advance(TTL)
        assert await asking is not None  # one node is silent: whichever of the two is true, the lock is held
        lines[2].thaw()


async def test_info_is_the_majoritys(trio: Trio, links: list[Link], here: Lock, there: Lock) -> None:
    assert await there.info() is None
    async with here as lease:
        for dropped in (2, None):
            info = await there.info()
            assert info is not None
            assert info.fence == lease.fence
            assert info.ttl == pytest.approx(TTL - DRIFT, abs=0.01)
            if dropped is not None:
                trio.drop(dropped)
    rival = calls_of().acquire(Bid("rival:1", 30_000, 0, "a rival"))
    links[0]._execute(rival)
    assert await there.info() is None


async def test_you_cannot_look_without_a_majority(trio: Trio, links: list[Link], here: Lock) -> None:
    links[0].hang()
    links[1].hang()
    look = asyncio.ensure_future(here.is_locked())
    await trio.clock.advance(3.0)
    with pytest.raises(QuorumError, match="no answer in time"):
        await look
    for link in links:
        link.thaw()


async def test_force_release_frees_every_node_and_tells_the_holder(trio: Trio, here: Lock, there: Lock) -> None:
    with pytest.raises(LockLost) as caught:
        async with here:
            assert await there.force_release()
            assert trio.held() == [False] * 3
            await trio.clock.advance(1.0)
            await asyncio.Event().wait()
    assert caught.value.reason is LossReason.REVOKED
    assert not await there.force_release()


async def test_force_release_needs_a_majority(trio: Trio, links: list[Link], here: Lock) -> None:
    for link in links[:2]:
        link.hang(FORCE_RELEASE.name)
    force = asyncio.ensure_future(here.force_release())
    await trio.clock.advance(3.0)
    with pytest.raises(QuorumError):
        await force
    for link in links:
        link.thaw()


# Clocks.


async def test_a_clock_an_hour_ahead(trio: Trio) -> None:
    """Its fences lead; when it goes away, they do not fall. Expiry depends on rates only, and is unharmed."""
    trio = Trio(ahead=(3600, 0, -3600))
    one, two = trio.links(), trio.links()
    async with trio.manager(one) as locks, trio.manager(two) as others:
        async with locks.lock(NAME) as lease:
            fence = lease.fence
            await trio.clock.advance(2 * TTL)
            assert not lease.lost
            assert await others.lock(NAME).try_acquire() is None
        with away(two[0]):
            async with others.lock(NAME) as lease:
                assert lease.fence > fence


async def test_a_clock_that_runs_too_fast_is_outvoted(trio: Trio) -> None:
    """Its keys expire after half their time: no one gets in, and no one loses anything."""
    trio = Trio(rates=(2, 1, 1))
    one, two = trio.links(), trio.links()
    async with trio.manager(one, renew=False) as locks, trio.manager(two) as others:
        with pytest.raises(LockLost) as caught:
            async with locks.lock(NAME) as lease:
                await trio.clock.advance(TTL * 0.6)
                assert trio.held() == [False, True, True]
                assert await others.lock(NAME).try_acquire() is None
                assert not lease.lost
                await trio.clock.advance(TTL * 0.3)
                await asyncio.Event().wait()
    assert caught.value.reason is LossReason.EXPIRED


@pytest.mark.parametrize("rate", [0.99, 1.01])
async def test_clocks_that_drift_by_a_hundredth_are_covered(trio: Trio, rate: float) -> None:
    """Without any margin. Kept by Tally.lasting: `pttl * DRIFT`."""
    trio = Trio(rates=(rate, rate, rate))
    links = trio.links()
    async with trio.manager(links, renew=False, margin=0) as locks:
        lease = await locks.lock(NAME).acquire()
        await trio.clock.advance(lease.remaining() - 0.001)
        assert trio.held() == [True] * 3
        assert not lease.lost
        await lease.release()


async def test_all_at_once(trio: Trio) -> None:
    """Invariants 1 and 2: three processes, five tasks each."""
    inside, fences = 0, []

    async def work(locks: LockManager) -> None:
        nonlocal inside
        for _ in range(4):
            async with locks.lock(NAME) as lease:
                inside += 1
                assert inside == 1
                fences.append(lease.fence)
                await asyncio.sleep(0)
                inside -= 1

    managers = [trio.manager(trio.links()) for _ in range(3)]
    async with managers[0], managers[1], managers[2]:
        tasks = [asyncio.ensure_future(work(manager)) for manager in managers * 5]
        for _ in range(400):
            if all(task.done() for task in tasks):
                break
            await trio.clock.advance(0.1)
        await asyncio.gather(*tasks)
    assert len(fences) == 60
    assert fences == sorted(set(fences))
    assert trio.held() == [False] * 3


async def test_waiting_survives_the_loss_of_a_majority(trio: Trio, links: list[Link], here: Lock, there: Lock) -> None:
    """Design §3: a task that already waits keeps waiting until its own timeout."""
    lease = await there.acquire()
    waiters = [asyncio.ensure_future(here.acquire(timeout=seconds)) for seconds in (20.0, 600.0)]
    await trio.clock.advance(1.0)
    for link in links[:2]:
        link.hang()
    await lease.release()
    await trio.clock.advance(60.0)
    with pytest.raises(AcquireTimeout):
        await waiters[0]
    assert not waiters[1].done()
    for link in links[:2]:
        link.thaw()
    await trio.clock.advance(10.0)
    await (await waiters[1]).release()


async def test_a_node_that_was_slow_has_another_depth(trio: Trio, links: list[Link], here: Lock, there: Lock) -> None:
    """What a majority has is shown. Kept by majority.seen: `depth`."""
    async with here:
        links[0].hang("nest")
        async with here:
            info = await there.info()
            assert info is not None
            assert info.depth == 2
        links[0].thaw()
        await trio.clock.advance(0)


async def test_a_request_that_is_late_asks_no_successor(trio: Trio, lines: list[Link], here: Lock, there: Lock) -> None:
    """One server executes it after the lock has passed on. Broken by a request that names nobody."""
    lease = await here.acquire()
    lines[2].hang("request_release")
    await there.request_release()
    await trio.clock.advance(1.0)
    assert lease.wanted
    await lease.release()
    async with here as successor:
        lines[2].thaw()
        await trio.clock.advance(1.0)
        assert not successor.wanted
