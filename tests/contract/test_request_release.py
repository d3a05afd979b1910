"""Asking a holder to finish: who is told, who waits for the end, and what happens if it does not come."""

from __future__ import annotations

import asyncio

import pytest

from aiolock import ConfigurationError, Lock, LockLost, LossReason, NotOwned
from aiolock.primitives.revocation import request_release
from aiolock.scripts.base import Call
from aiolock.scripts.lock import LockCalls

from .places import KEYS, LIVENESS_MS, Place, give_back, steal, until

NAME = "order:42"
ENOUGH = 5.0
"""Far longer than anything here needs."""

told = pytest.mark.not_polling("a manager that polls hears no messages")


@told
async def test_the_holder_is_told(here: Lock, there: Lock) -> None:
    """Kept by request_release.lua: PUBLISH."""
    async with asyncio.timeout(ENOUGH), here as lease:
        assert not lease.wanted
        assert not await there.request_release()
        await lease.wait_wanted()
        assert lease.wanted
        await lease.wait_wanted()  # at once, from now on
        assert not lease.lost
    assert await there.request_release()


@told
async def test_it_waits_for_the_end_of_that_hold(here: Lock, there: Lock) -> None:
    """A successor is not waited for, and not told."""
    entered = asyncio.Event()

    async def next_holder() -> None:
        async with here as lease:
            entered.set()
            assert await asking
            assert not lease.wanted

    async with asyncio.timeout(ENOUGH):
        async with here as lease:
            successor = asyncio.create_task(next_holder())
            asking = asyncio.create_task(there.request_release(grace=60.0))
            await lease.wait_wanted()
            assert not asking.done()
        await entered.wait()
        await successor


@pytest.mark.not_in_queues("the requests of a manager need not arrive in their order")
@told
async def test_asked_in_the_moment_of_the_grant(here: Lock, there: Lock) -> None:
    """Grant and request come to the next holder together. Seen to fail on a real server without QueueEntries.want."""

    async def next_holder(asked: asyncio.Future[bool]) -> bool:
        async with here as lease:
            if await asked:
                await lease.wait_wanted()  # a quorum passes messages on after a pause
            return lease.wanted

    async with asyncio.timeout(2 * ENOUGH):
        for _ in range(5):
            asked = asyncio.get_running_loop().create_future()
            lease = await there.acquire()
            waiting = asyncio.create_task(next_holder(asked))
            await until(lambda: bool(here._runtime.queue_entries))
            await there.is_locked()
            given, asking = lease.release(), asyncio.ensure_future(there.request_release())
            holds = not await asking
            await given
            await here.is_locked()  # whatever was on its way has arrived
            asked.set_result(holds)
            assert await waiting is holds


@told
async def test_every_lease_of_the_hold_is_told(here: Lock, there: Lock) -> None:
    async with asyncio.timeout(ENOUGH), here as outer, here as inner:
        waiting = asyncio.create_task(inner.wait_wanted())
        await there.request_release()
        await outer.wait_wanted()
        await waiting
        assert outer.wanted
        assert inner.wanted


@told
async def test_a_message_that_was_lost_is_sent_again(here: Lock, there: Lock) -> None:
    """Kept by request_release: it asks again while it waits."""
    async with asyncio.timeout(ENOUGH), here as lease:
        asking = asyncio.create_task(there.request_release(grace=60.0))
        await lease.wait_wanted()
        lease._hold.wanted = False  # as if the message had not come
        await until(lambda: lease.wanted)
        assert not asking.done()
        asking.cancel()


async def test_grace_and_force(here: Lock, there: Lock) -> None:
    """A holder that does not listen keeps the lock, unless it is forced; then it is revoked."""
    lease = await here.acquire()
    assert not await there.request_release(grace=0.02)
    assert await there.request_release(grace=0.02, force=True)
    async with asyncio.timeout(ENOUGH), there as other:
        assert other.fence > lease.fence
        with pytest.raises(LockLost):
            await lease.renew()
        with pytest.raises(LockLost) as caught:
            await lease.wait_wanted()
        assert caught.value.reason in (LossReason.REVOKED, LossReason.TAKEN_OVER)
    with pytest.raises(LockLost):
        await lease.release()


class Late(LockCalls):
    """Another takes the lock just before it is forced.

    Args:
        place: where.
    """

    __slots__ = ("place",)

    def __init__(self, place: Place) -> None:
        super().__init__(KEYS, NAME, LIVENESS_MS)
        self.place = place

    def force_release(self, fence: int = 0) -> Call[bool]:
        steal(self.place, NAME)
        return super().force_release(fence)


@pytest.mark.not_in_queues("it stands in for requests of scripts")
async def test_force_ends_only_the_hold_that_was_asked(here: Lock, there: Lock, place: Place) -> None:
    """Kept by request_release: it forces with that hold's fence."""
    lease = await here.acquire()
    assert await request_release(there._runtime, (Late(place),), grace=0.0, force=True)
    assert not place.gone(NAME)
    give_back(place, NAME)
    with pytest.raises(LockLost):
        await lease.release()


async def test_nobody_holds_it(there: Lock, place: Place) -> None:
    assert await there.request_release()
    assert await there.request_release(grace=60.0, force=True)
    assert not place.keys()


async def test_a_lease_that_ends_is_not_wanted_any_more(here: Lock) -> None:
    lease = await here.acquire()
    waiting = asyncio.create_task(lease.wait_wanted())
    await asyncio.sleep(0)
    await lease.release()
    with pytest.raises(NotOwned):
        await waiting
    with pytest.raises(NotOwned):
        await lease.wait_wanted()


@told
async def test_cancelling_changes_nothing(here: Lock, there: Lock) -> None:
    async def cancelled(waiting: asyncio.Task[object]) -> None:
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    async with here as lease:
        watching = asyncio.create_task(lease.wait_wanted())
        await asyncio.sleep(0)
        assert lease._hold.watchers
        await cancelled(watching)
        assert not lease._hold.watchers
        asking = asyncio.create_task(there.request_release(grace=60.0, force=True))
        await lease.wait_wanted()
        await cancelled(asking)
        assert not lease.lost


@pytest.mark.parametrize("grace", [-1.0, float("nan"), "soon"])
async def test_a_grace_that_cannot_be(there: Lock, grace: float) -> None:
    with pytest.raises(ConfigurationError, match="grace"):
        await there.request_release(grace)
