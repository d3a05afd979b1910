"""An acquire sent to three nodes: granted and confirmed by two, or undone on all."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import AcquireTimeout, Lease, Lock, LockLost, LockManager, QuorumError
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Finished

from .world import NAME, TTL, Link, Trio, away, calls_of

FAR = 2**52


async def test_all_three_hold_it_under_one_fence(trio: Trio, here: Lock) -> None:
    """Kept by QuorumAcquire._agree: every node that granted is told the greatest fence."""
    trio.set_fences(FAR, FAR + 2, FAR + 1)
    async with here as lease:
        await trio.clock.advance(0)
        assert trio.held() == [True] * 3
        assert trio.fences() == [lease.fence] * 3 == [FAR + 3] * 3
    await trio.clock.advance(0)
    assert trio.held() == [False] * 3


async def test_h8_the_next_majority_knows_the_fence(trio: Trio, links: list[Link], lines: list[Link]) -> None:
    """H8: A takes nodes 1 and 2 with 10 and 12; B takes 1 and 3 with 11 and 6. Kept by QuorumAcquire._confirm."""
    trio.set_fences(FAR + 9, FAR + 11, FAR + 5)
    async with trio.manager(links) as one, trio.manager(lines) as two:
        with away(links[2]):
            async with one.lock(NAME) as lease:
                assert lease.fence == FAR + 12
        with away(lines[1]):
            async with two.lock(NAME) as lease:
                assert lease.fence == FAR + 13


async def test_h8_no_one_enters_while_the_write_back_is_lost(trio: Trio, links: list[Link], lines: list[Link]) -> None:
    """Broken by entering with the grants alone."""
    trio.set_fences(FAR + 9, FAR + 11, FAR + 5)
    async with trio.manager(links) as one, trio.manager(lines) as two:
        links[0].hang("confirm")
        with away(links[2]):
            attempt = asyncio.ensure_future(one.lock(NAME).acquire())
            await trio.clock.advance(1.0)
            assert not attempt.done()
            await trio.clock.advance(3.0)
            with pytest.raises(QuorumError, match="did not confirm") as caught:
                await attempt
            assert caught.value.transient
        links[0].thaw()
        await trio.clock.advance(0)
        assert trio.held() == [False] * 3
        with away(lines[1]):
            async with two.lock(NAME) as lease:
                assert lease.fence > 0


async def test_two_nodes_are_enough_and_the_third_is_not_waited_for(trio: Trio, links: list[Link], here: Lock) -> None:
    """No time passes. Kept by QuorumAcquire.judge: a majority decides."""
    links[1].hang()
    async with here.acquire(timeout=0) as lease:
        assert trio.held() == [True, False, True]
        assert lease.remaining() > TTL / 2
    assert trio.held() == [False] * 3
    links[1].thaw()
    await trio.clock.advance(0)
    assert trio.held() == [False] * 3


async def test_a_node_that_was_slow_joins(trio: Trio, links: list[Link], here: Lock) -> None:
    """One more node that may fail. Its fence becomes the agreed one, although it minted a later one: otherwise its
    renewals would say taken over. Kept by QuorumAcquire.on_answer.
    """
    links[1].hang()
    async with here as lease:
        await trio.clock.advance(2.0)
        links[1].thaw()
        await trio.clock.advance(0)
        assert trio.held() == [True] * 3
        assert trio.fences() == [lease.fence] * 3
        trio.drop(0)
        await trio.clock.advance(TTL)
        assert not lease.lost
        assert trio.held() == [False, True, True]


async def test_a_grant_that_comes_after_the_loss_makes_its_node_forget_nothing(
    trio: Trio, links: list[Link], locks: LockManager, there: Lock
) -> None:
    """It was lost in the meantime, and that node knows the successor's fence. Kept by confirm.lua: `before`."""
    trio.set_fences(FAR, FAR, FAR)
    links[1].hang()
    lease = await locks.lock(NAME, renew=False).acquire()
    await trio.clock.advance(TTL + 1)
    async with there as successor:
        assert successor.fence == lease.fence + 1
    links[1].thaw()
    await trio.clock.advance(0)
    assert trio.held() == [False, True, False]
    assert trio.fences()[1] > successor.fence
    with pytest.raises(LockLost):
        await lease.release()
    await trio.clock.advance(0)
    assert trio.held() == [False] * 3


async def test_a_majority_that_is_silent_is_an_error_in_time(trio: Trio, links: list[Link], here: Lock) -> None:
    """After a twentieth of the ttl, not the request_timeout. Kept by Members.timeout."""
    links[1].hang()
    links[2].hang()
    attempt = asyncio.ensure_future(here.acquire())
    await trio.clock.advance(TTL / 20 + 0.1)
    assert attempt.done()
    with pytest.raises(QuorumError) as caught:
        await attempt
    assert caught.value.outcomes == ("node 1: granted", "node 2: no answer in time", "node 3: no answer in time")
    assert caught.value.transient
    assert trio.held() == [False] * 3
    for link in links:
        link.thaw()
    await trio.clock.advance(0)
    assert trio.held() == [False] * 3
    async with here:
        pass


async def test_a_request_that_was_never_written_never_is(trio: Trio, links: list[Link], here: Lock) -> None:
    """Kept by QuorumRequest.over: it withdraws."""
    with away(links[2]):
        async with here:
            pass
        links[2].calls.clear()
    await trio.clock.advance(0)
    assert links[2].calls == ["release"]


@pytest.mark.parametrize("executed", [False, True])
async def test_an_acquire_that_dies_leaves_a_tombstone(
    trio: Trio, links: list[Link], here: Lock, executed: bool
) -> None:
    """The lost copy may still run: it finds a tombstone. Kept by QuorumAcquire.again."""
    links[2].hang()
    lease = await here.acquire()
    owner = lease._hold.owner
    links[2].die(executed=executed)
    await trio.clock.advance(0)
    assert trio.held() == [True, True, False]
    assert trio.tombstones() == [0, 0, 1]
    late = calls_of().acquire(Bid(owner, 30_000, 0, ""))
    assert isinstance(links[2]._execute(late), Finished)
    await lease.release()
    assert trio.held() == [False] * 3


async def test_an_undo_that_is_lost_is_written_again(trio: Trio, links: list[Link], here: Lock) -> None:
    """Cancelled in flight; on one node both the acquire and its undo die unanswered. Kept by QuorumRelease.again."""
    links[0].hang()
    attempt = asyncio.ensure_future(here.acquire())
    links[1].hang()
    await trio.clock.advance(0.1)
    attempt.cancel()
    await trio.clock.advance(0)
    assert attempt.cancelled()
    links[0].die(executed=True)
    links[1].thaw()
    await trio.clock.advance(0)
    assert trio.held() == [False] * 3
    assert trio.tombstones()[0] == 1


async def test_a_grant_that_no_task_waits_for_is_not_confirmed(
    trio: Trio, links: list[Link], locks: LockManager, here: Lock
) -> None:
    """Its undo was written after it, and nothing of it is remembered. Kept by QuorumRelease: `asking.discard`."""
    trio.set_fences(FAR, FAR + 1, FAR + 2)
    for link in links:
        link.hang()
    attempt = asyncio.ensure_future(here.acquire())
    await trio.clock.advance(0.1)
    attempt.cancel()
    await trio.clock.advance(0)
    for link in links:
        link.thaw()
    await trio.clock.advance(0)
    assert [script for script, _ in links[0].sent] == ["acquire", "release"]
    assert not locks._runtime.backend._members.granted  # type: ignore[attr-defined]
    assert trio.held() == [False] * 3


@pytest.mark.parametrize("turns", range(12))
async def test_cancelled_anywhere_it_leaves_nothing(trio: Trio, here: Lock, there: Lock, turns: int) -> None:
    attempt = asyncio.ensure_future(here.acquire())
    for _ in range(turns):
        await asyncio.sleep(0)
    attempt.cancel()
    await asyncio.wait([attempt])
    if not attempt.cancelled():
        await attempt.result().release()
    await trio.clock.advance(0)
    assert trio.held() == [False] * 3
    async with there.try_acquire() as lease:
        assert lease is not None


# Rivals.


async def split(trio: Trio, links: list[Link], lines: list[Link], here: Lock, there: Lock) -> list[asyncio.Task[Lease]]:
    """Each of two asks first on a node of its own; the third node is away."""
    links[1].hang()
    lines[0].hang()
    tasks = [asyncio.ensure_future(lock.acquire(timeout=600)) for lock in (here, there)]
    await trio.clock.advance(0)
    assert trio.held() == [True, True, False]
    links[1].thaw()
    lines[0].thaw()
    await trio.clock.advance(0)
    return tasks  # type: ignore[return-value]


async def test_a_split_vote_is_undone_and_tried_again(
    trio: Trio, links: list[Link], lines: list[Link], here: Lock, there: Lock
) -> None:
    """Kept by Race.refused: a used-up owner is ended, and pauses for a random time."""
    with away(links[2], lines[2]):
        tasks = await split(trio, links, lines, here, there)
        for _ in range(200):
            await trio.clock.advance(0.05)
            if any(task.done() for task in tasks):
                break
        done = [task for task in tasks if task.done()]
        assert len(done) == 1
        first = done[0].result()
        await trio.clock.advance(5.0)
        assert sum(task.done() for task in tasks) == 1
        assert trio.held() == [True, True, False]
        await first.release()
        await trio.clock.advance(5.0)
        (second,) = [task.result() for task in tasks if task is not done[0]]
        assert second.fence > first.fence
        await second.release()
    await trio.clock.advance(0)
    assert trio.held() == [False] * 3


async def test_an_owner_that_was_undone_never_comes_back(
    trio: Trio, links: list[Link], lines: list[Link], here: Lock, there: Lock
) -> None:
    """Its undo may run late. Kept by Race.refused: `renew_owner`."""
    with away(links[2], lines[2]):
        tasks = await split(trio, links, lines, here, there)
        await trio.clock.advance(10.0)
    for link in (*links, *lines):
        ended = set()
        for script, owner in link.sent:
            ended |= {owner} if script == "release" else set()
            assert script != "acquire" or owner not in ended
    assert any(script == "release" for script, _ in links[0].sent)
    for task in tasks:
        if task.done():
            await task.result().release()
    await trio.clock.advance(10.0)
    for task in tasks:
        await (await task).release()


async def test_a_try_in_a_split_vote_gets_nothing_and_leaves_nothing(trio: Trio, links: list[Link], here: Lock) -> None:
    rival = calls_of().acquire(Bid("rival:1", 30_000, 0, "a rival"))
    links[0]._execute(rival)
    with away(links[2]):
        attempt = asyncio.ensure_future(here.try_acquire())
        await trio.clock.advance(3.0)
        assert await attempt is None
    await trio.clock.advance(0)
    assert trio.holders() == ["rival", "", ""]


async def test_votes_that_stay_split_are_not_repeated_all_the_time(trio: Trio, links: list[Link], here: Lock) -> None:
    """A rival crashed while it had one node, and another is away. Kept by Race.refused: `entry.pause`."""
    links[0]._execute(calls_of().acquire(Bid("rival:1", 20_000, 0, "a rival")))
    with away(links[2]):
        waiter = asyncio.ensure_future(here.acquire())
        await trio.clock.advance(15.0)
        assert 5 < links[0].calls.count("acquire") < 60
        await trio.clock.advance(15.0)
        await (await waiter).release()


async def test_tasks_of_one_process_release_and_acquire(trio: Trio, links: list[Link], here: Lock) -> None:
    """In one write, so there is no split vote. Kept by hand_on: a quorum has no transfer."""

    async def enter() -> None:
        async with here:
            await asyncio.sleep(0)

    tasks = [asyncio.ensure_future(enter()) for _ in range(3)]
    await trio.clock.advance(0)
    await asyncio.gather(*tasks)
    await trio.clock.advance(0)
    assert [script for script, _ in links[0].sent if script != "confirm"] == ["acquire", "release"] * 3


async def test_a_timeout_names_the_holder(trio: Trio, here: Lock, others: LockManager) -> None:
    async with others.lock(NAME, metadata="invoice run"):
        attempt = asyncio.ensure_future(here.acquire(timeout=1.0))
        await trio.clock.advance(2.0)
        with pytest.raises(AcquireTimeout, match="invoice run"):
            await attempt


async def test_waiters_do_not_wake_each_other(trio: Trio, links: list[Link], here: Lock, there: Lock) -> None:
    """The holder is missing on one node, which grants and is undone at each attempt: that sends no message.

    Kept by QuorumRelease.args: `_silent`.
    """
    third = trio.manager(trio.links())
    async with third:
        holder = await third.lock(NAME).acquire()
        trio.drop(2)
        waiters = [asyncio.ensure_future(lock.acquire()) for lock in (here, there)]
        await trio.clock.advance(1.0)
        links[0].calls.clear()
        await trio.clock.advance(5.0)
        assert links[0].calls.count("acquire") <= 1
        await holder.release()
        await trio.clock.advance(2.0)
        assert sum(waiter.done() for waiter in waiters) == 1
        for waiter in waiters:
            if waiter.done():
                await waiter.result().release()
        await trio.clock.advance(2.0)
        for waiter in waiters:
            await (await waiter).release()


async def test_a_release_wakes_the_waiters(trio: Trio, links: list[Link], here: Lock, there: Lock) -> None:
    """Even if the waiter cannot reach one node. Kept by Subscription: confirmed by a majority, told by any node."""
    lease = await there.acquire()
    with away(links[1]):
        waiter = asyncio.ensure_future(here.acquire())
        await trio.clock.advance(1.0)
        assert not waiter.done()
        await lease.release()
        await trio.clock.advance(0.5)
        assert waiter.done()
        assert waiter.result().fence > lease.fence
        await waiter.result().release()


async def test_one_process_leaves_room_for_another(trio: Trio, here: Lock, there: Lock) -> None:
    """Kept by Race.released: a streak ends."""
    entered: list[str] = []

    async def enter(lock: Lock, who: str, times: int) -> None:
        for _ in range(times):
            async with lock:
                entered.append(who)
                await asyncio.sleep(0)

    tasks = [asyncio.ensure_future(enter(here, "here", 60)) for _ in range(3)]
    await trio.clock.advance(0)
    tasks.append(asyncio.ensure_future(enter(there, "there", 1)))
    for _ in range(100):
        await trio.clock.advance(0.1)
        if all(task.done() for task in tasks):
            break
    assert entered.index("there") < len(entered) - 1
    await asyncio.gather(*tasks)


async def test_the_third_node_is_waited_for_only_once(
    trio: Trio, links: list[Link], lines: list[Link], here: Lock
) -> None:
    """A node that let the time of an attempt pass is suspected until it answers. Kept by QuorumRequest.final."""
    rival = calls_of()
    links[0]._execute(rival.acquire(Bid("rival:1", 600_000, 0, "a rival")))
    links[2].hang()
    attempt = asyncio.ensure_future(here.try_acquire())
    await trio.clock.advance(1.0)
    assert not attempt.done()
    await trio.clock.advance(1.0)
    assert await attempt is None
    assert await here.try_acquire() is None  # no time passes
    links[2].thaw()
    await trio.clock.advance(0)
    lease = await here.try_acquire()
    assert lease is not None
    await lease.release()
