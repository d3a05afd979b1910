"""When a process asks three nodes again: there is no queue, and waiters hear of releases, or look by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiolock import BackendError, Lease, Lock, LockLost, LockManager, Poll
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from tests.support import locks as looks

from .world import NAME, TTL, Link, Trio, calls_of, keys_of

SOON = 0.3
"""Seconds: longer than the pause after a message."""


def steal(trio: Trio, ttl: float = 600.0) -> None:
    """Put a stranger in place of the holder on all nodes, without telling anyone."""
    trio.drop(0, 1, 2)
    for store in trio.stores:
        Link(store, trio.clock)._execute(calls_of().acquire(Bid("thief:1", int(ttl * 1000), 0, "a thief")))


def tell(trio: Trio, who: str) -> None:
    """Announce a release, although a stranger still has the lock."""
    for store in trio.stores:
        store.publish(keys_of().free, f"{who} 7")


def asked(link: Link) -> int:
    """Not of the first node, where processes line up."""
    return link.calls.count("acquire")


async def given_back(waiter: asyncio.Future[Lease]) -> None:
    """Check that it has been let in by now."""
    assert waiter.done()
    await waiter.result().release()


async def release_lost(lease: Lease) -> None:
    with pytest.raises(LockLost):
        await lease.release()


async def test_a_grant_needs_no_renewal(trio: Trio, links: list[Link], here: Lock) -> None:
    """What is taken off a quorum's PTTL for drift makes no grant provisional. Kept by QueueEntry.take."""
    async with here:
        await trio.clock.advance(0)
        assert set(links[0].calls) <= {"acquire", "confirm"}


async def test_a_task_that_takes_over_a_place_is_renewed(
    trio: Trio, links: list[Link], locks: LockManager, here: Lock
) -> None:
    """The request was made with another task's ttl. Kept by LocalQueue.granted."""
    for link in links:
        link.hang("acquire")
    first = asyncio.ensure_future(here.acquire())
    second = asyncio.ensure_future(locks.lock(NAME, ttl=2 * TTL, metadata="the second").acquire())
    await trio.clock.advance(0)
    first.cancel()
    await trio.clock.advance(0)
    for link in links:
        link.thaw()
    await trio.clock.advance(0)
    assert second.done()
    lease = second.result()
    await trio.clock.advance(0)
    assert lease.remaining() > TTL
    assert [looks.state(store).pttl for store in trio.stores] == [2 * TTL * 1000] * 3
    assert all("the second" in looks.state(store).metadata for store in trio.stores)
    await lease.release()


# What wakes a waiter.


async def test_a_release_that_is_through_late_lets_the_next_task_ask(
    trio: Trio, links: list[Link], here: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asked when the release was first written, and was refused; no message tells a process of its own release. Kept
    by Services.freed.
    """
    lease = await here.acquire()
    waiter = asyncio.ensure_future(here.acquire())
    await trio.clock.advance(0)
    for link in links[:2]:

        def post(call: Call[Any], write: Callable[[Call[Any]], None] = link.post) -> None:
            if call.script.name == "release":
                call.end(BackendError(call.name, "the connection died", transient=True))
            else:
                write(call)

        monkeypatch.setattr(link, "post", post)
    lease.release()
    await trio.clock.advance(0.01)
    assert not waiter.done()
    monkeypatch.undo()
    await trio.clock.advance(SOON)
    await given_back(waiter)


async def test_a_message_that_comes_during_an_attempt_counts(trio: Trio, links: list[Link], here: Lock) -> None:
    """The nodes may have refused it before the release that it hears of now. Kept by Race.refused: it looks at
    `_signalled`.
    """
    steal(trio)
    waiter = asyncio.ensure_future(here.acquire())
    await trio.clock.advance(SOON)
    assert asked(links[1]) == 2  # a release may have been missed before its subscription was confirmed
    for link in links:
        link.hang("acquire")
    tell(trio, "x:1")
    await trio.clock.advance(0.1)
    tell(trio, "x:2")
    await trio.clock.advance(0.1)
    for link in links:
        link.thaw()
    await trio.clock.advance(0)
    assert asked(links[1]) == 4
    await trio.clock.advance(60.0)
    assert asked(links[1]) == 4
    waiter.cancel()


async def test_who_got_in_listens_no_more(trio: Trio, here: Lock) -> None:
    """No other task of its process waits. Kept by `admit`: `gate.settle_down()`."""

    def listeners() -> list[int]:
        return [store.numsub(keys_of().free) for store in trio.stores]

    steal(trio, ttl=1.0)
    waiter = asyncio.ensure_future(here.acquire())
    await trio.clock.advance(SOON)
    assert listeners() == [1, 1, 1]
    await trio.clock.advance(2.0)
    assert listeners() == [0, 0, 0]
    await given_back(waiter)


async def test_a_message_from_before_the_attempt_does_not(trio: Trio, links: list[Link], here: Lock) -> None:
    """A message while this process has the lock. Kept by Race.ask: `_signalled = False`."""
    steal(trio, ttl=1.0)
    tasks = [asyncio.ensure_future(here.acquire()) for _ in range(2)]
    await trio.clock.advance(2.0)
    assert tasks[0].done()
    first = tasks[0].result()
    tell(trio, "x:1")
    await trio.clock.advance(SOON)
    steal(trio)
    links[1].calls.clear()
    await release_lost(first)
    await trio.clock.advance(60.0)
    assert asked(links[1]) == 1
    tasks[1].cancel()


async def test_a_forced_release_is_told(trio: Trio, here: Lock, there: Lock) -> None:
    """Kept by force_release.lua: ARGV[3]."""
    steal(trio)
    waiter = asyncio.ensure_future(here.acquire())
    await trio.clock.advance(SOON)
    assert not waiter.done()
    assert await there.force_release()
    await trio.clock.advance(SOON)
    await given_back(waiter)


async def test_the_end_of_a_hold_is_waited_for(trio: Trio, links: list[Link], here: Lock) -> None:
    """It comes without a message. Kept by Race._pause: `pttl`."""
    steal(trio, ttl=20.0)
    waiter = asyncio.ensure_future(here.acquire())
    await trio.clock.advance(19.9)
    assert asked(links[1]) == 2
    await trio.clock.advance(0.2)
    await given_back(waiter)


async def test_it_looks_from_time_to_time(trio: Trio, links: list[Link]) -> None:
    """Kept by Race._pause: `recheck`."""
    async with trio.manager(links, recheck=5.0) as locks:
        steal(trio)
        waiter = asyncio.ensure_future(locks.lock(NAME).acquire())
        await trio.clock.advance(1.0)
        trio.drop(0, 1, 2)
        await trio.clock.advance(3.9)
        assert not waiter.done()
        await trio.clock.advance(0.2)
        await given_back(waiter)


async def test_a_polling_waiter_asks_less_and_less_often(trio: Trio, links: list[Link]) -> None:
    """0.01 s, 0.02 s, 0.04 s … Kept by LocalQueue.refused: `attempts`."""
    async with trio.manager(links, waiting=Poll(first=0.01, cap=60.0, jitter=0.0)) as locks:
        steal(trio)
        waiter = asyncio.ensure_future(locks.lock(NAME).acquire())
        await trio.clock.advance(5.2)
        assert asked(links[1]) == 10
        assert [store.numsub(keys_of().free) for store in trio.stores] == [0, 0, 0]
        waiter.cancel()


# Whose turn it is.


@pytest.mark.parametrize("limit", [0, 2])
async def test_after_a_streak_it_is_left_to_others(trio: Trio, links: list[Link], limit: int) -> None:
    """For 50 ms, in the order in which they came. Kept by Race.released, and Race.begin."""
    entered: list[int] = []

    async def enter(lock: Lock, number: int) -> None:
        async with lock:
            entered.append(number)

    async with trio.manager(links, handoff_limit=limit) as locks:
        tasks = [asyncio.ensure_future(enter(locks.lock(NAME), number)) for number in range(2 * limit + 2)]
        await trio.clock.advance(0.049)
        assert entered == list(range(limit + 1))
        assert trio.held() == [False] * 3
        await trio.clock.advance(0.002)
        assert entered == list(range(2 * limit + 2))
        await asyncio.gather(*tasks)


async def test_a_message_ends_the_pause(trio: Trio, links: list[Link]) -> None:
    """Another process had it, and has released it. Kept by Race.signal."""
    async with trio.manager(links, handoff_limit=0) as locks:
        lock = locks.lock(NAME)
        steal(trio, ttl=1.0)
        tasks = [asyncio.ensure_future(lock.acquire()) for _ in range(2)]
        await trio.clock.advance(2.0)
        await given_back(tasks[0])
        assert not tasks[1].done()
        tell(trio, "x:1")
        await trio.clock.advance(0.03)
        await given_back(tasks[1])


async def test_only_votes_split_in_a_row_lengthen_the_pause(trio: Trio, links: list[Link], here: Lock) -> None:
    """Kept by Wait.failures, which are not its `attempts`, and by Race.refused, which starts again."""

    def divide() -> None:
        """Give each of two strangers a node."""
        trio.drop(1, 2)
        Link(trio.stores[1], trio.clock)._execute(calls_of().acquire(Bid("other:1", 600_000, 0, "another")))

    steal(trio)
    with links[2].outage():
        waiter = asyncio.ensure_future(here.acquire())
        await trio.clock.advance(SOON)
        for number in range(10):
            tell(trio, f"x:{number}")
            await trio.clock.advance(SOON)
        for _ in range(2):
            divide()
            links[0].calls.clear()
            tell(trio, "x:10")
            await trio.clock.advance(2 * SOON)
            assert asked(links[1]) >= 3
            await trio.clock.advance(5.0)
            steal(trio)
            await trio.clock.advance(2.0)
        waiter.cancel()
