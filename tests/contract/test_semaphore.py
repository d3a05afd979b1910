"""The semaphore's own contract. test_exclusive.py has what one permit shares with a lock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from aiolock import (
    AcquireTimeout,
    BackendError,
    ConfigurationError,
    Lease,
    LockLost,
    LockManager,
    LossReason,
    NotOwned,
    Semaphore,
    SemaphoreInfo,
)

from .places import Place, revoked, until, waits
from .strangers import QueueStranger, queued

NAME = "api"
ENOUGH = 10.0


@pytest.fixture
def here(locks: LockManager) -> Semaphore:
    return locks.semaphore(NAME, 3)


@pytest.fixture
def there(others: LockManager) -> Semaphore:
    return others.semaphore(NAME, 3)


@pytest.mark.not_in_threads("a release raises when it is awaited")
@pytest.mark.not_in_queues("there are no tickets")
async def test_a_task_that_detached_one_of_its_permits_still_ends_with_the_other(here: Semaphore) -> None:
    """Kept by LeasesByTask.remove: the task is forgotten with its last lease on the name, whatever hold that is of."""

    async def work() -> tuple[Lease, Lease]:
        moved, kept = await here.acquire(), await here.acquire()
        await moved.detach()
        return moved, kept

    moved, kept = await asyncio.create_task(work())
    assert moved.released
    await until(lambda: kept._task is None)
    with pytest.raises(NotOwned):
        here.release()  # which lease is meant cannot be decided
    await kept.release()
    assert await here.used() == 1  # the one that moves away


async def test_as_many_as_there_are_permits(here: Semaphore, there: Semaphore) -> None:
    """Not reentrant: each acquisition takes a permit."""
    async with here as one, here as two, there as three:
        assert len({one.fence, two.fence, three.fence}) == 3
        assert await there.try_acquire() is None
        assert await here.available() == 0
    assert await there.available() == 3


async def test_several_at_once_all_or_none(here: Semaphore, there: Semaphore) -> None:
    async with here.acquire(2):
        assert await there.available() == 1
        assert await there.try_acquire(2) is None
        assert await there.available() == 1
        async with there.try_acquire(1) as lease:
            assert lease is not None
            assert await there.available() == 0
    async with there.acquire(3, timeout=0):
        assert await there.available() == 0
    assert await here.available() == 3


async def test_a_large_request_is_not_starved_by_small_ones(here: Semaphore, there: Semaphore) -> None:
    """Kept by ask.lua: `state.waiters == 0 and …`, and settle, which stops at a head that does not fit."""
    small = [await here.acquire() for _ in range(2)]
    large = asyncio.create_task(there.acquire(3))
    await queued(here, 1)
    assert await here.try_acquire() is None  # a permit is free, but the large request came first
    behind = asyncio.create_task(here.acquire())
    await queued(here, 2)
    await small[0].release()
    await asyncio.sleep(0.02)
    assert not large.done()
    assert not behind.done()
    await small[1].release()
    async with asyncio.timeout(ENOUGH):
        lease = await large
        assert not behind.done()
        await lease.release()
        await (await behind).release()


async def test_a_release_lets_in_all_that_fit(here: Semaphore, there: Semaphore) -> None:
    """H16: one message would strand permits. Kept by turn.lua: settle's loop."""
    lease = await here.acquire(3)
    waiters = [asyncio.create_task(semaphore.acquire()) for semaphore in (here, there, here, there)]
    await queued(here, 4)
    await lease.release()
    async with asyncio.timeout(ENOUGH):
        done, pending = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 3:
            some, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            done |= some
        assert len(pending) == 1
        for task in done:
            await task.result().release()
        await (await pending.pop()).release()


@pytest.mark.not_in_queues("semaphores do not know who has vanished")
async def test_a_crashed_holders_permits_come_back_after_its_ttl(
    here: Semaphore, there: Semaphore, place: Place
) -> None:
    """After its own ttl: each holder has its own lease. Kept by holders.lua: `prune`."""
    crashed = QueueStranger(place, "semaphore", NAME, capacity=3, weight=2)
    async with here:
        crashed.take(ttl=0.3)
        assert await there.available() == 0
        async with there.acquire(2, timeout=ENOUGH) as lease:
            assert lease.abandoned
            assert await here.available() == 0
    assert not crashed.holds
    assert await here.available() == 3


async def test_the_stored_number_wins_and_a_warning_says_so(
    locks: LockManager, others: LockManager, caplog: pytest.LogCaptureFixture
) -> None:
    """Kept by state.lua: `capacity`."""
    here, there = locks.semaphore(NAME, 2), others.semaphore(NAME, 5)
    async with here, there:
        assert await there.try_acquire() is None
        assert (await there.info()).permits == 2
    (warning,) = [record for record in caplog.records if "permits" in record.getMessage()]
    assert warning.levelno == logging.WARNING
    assert f"'{NAME}' has 2 permits, not the 5" in warning.getMessage()
    assert "set_permits()" in warning.getMessage()


async def test_a_waiter_that_a_message_lets_in_is_warned_too(
    here: Semaphore, others: LockManager, caplog: pytest.LogCaptureFixture
) -> None:
    """Kept by turn.lua: `text(state.capacity)` in the message."""
    lease = await here.acquire(3)
    waiter = asyncio.create_task(others.semaphore(NAME, 5).acquire())
    await queued(here)
    await lease.release()
    async with asyncio.timeout(ENOUGH):
        await (await waiter).release()
    assert f"'{NAME}' has 3 permits, not the 5" in caplog.text


async def test_a_waiter_is_not_warned_without_reason(
    here: Semaphore, there: Semaphore, caplog: pytest.LogCaptureFixture
) -> None:
    lease = await here.acquire(3)
    waiter = asyncio.create_task(there.acquire())
    await queued(here)
    await lease.release()
    async with asyncio.timeout(ENOUGH):
        await (await waiter).release()
    # The scheduler may log that the machine stood still.
    assert {record.name for record in caplog.records if record.levelno >= logging.WARNING} <= {"aiolock.scheduler"}


@pytest.mark.not_in_queues("permits do not change")
async def test_more_permits_let_in_the_waiters_that_now_fit(here: Semaphore, there: Semaphore) -> None:
    """Kept by set_capacity.lua's settle."""
    lease = await here.acquire(3)
    waiters = [asyncio.create_task(semaphore.acquire()) for semaphore in (here, there)]
    await queued(here, 2)
    await there.set_permits(5)
    async with asyncio.timeout(ENOUGH):
        for other in await asyncio.gather(*waiters):
            await other.release()
    assert await here.available() == 2
    await lease.release()
    assert await here.available() == 5


@pytest.mark.not_in_queues("permits do not change")
async def test_the_change_itself_lets_them_in(here: Semaphore, place: Place) -> None:
    """The same script lets in all that fit, so none has to ask. Kept by set_capacity.lua's settle."""
    async with here.acquire(3):
        strangers = [
            QueueStranger(place, "semaphore", NAME, capacity=3, weight=n, owner=f"s:{n}{i}")
            for i, n in enumerate((1, 2, 1))
        ]
        for stranger in strangers:
            stranger.queue()
        await here.set_permits(6)
        assert [stranger.holds for stranger in strangers] == [True, True, False]
    assert strangers[2].holds
    for stranger in strangers:
        stranger.leave()
    assert await here.available() == 6


@pytest.mark.not_in_queues("permits do not change")
async def test_fewer_permits_take_none_away(here: Semaphore, there: Semaphore) -> None:
    leases = [await here.acquire() for _ in range(3)]
    await there.set_permits(1)
    assert (await here.info()).permits == 1
    assert await here.available() == 0
    assert await here.used() == 3
    waiter = asyncio.create_task(there.acquire())
    await queued(here)
    for lease in leases:
        assert not lease.lost
        assert not waiter.done()
        await lease.release()
    async with asyncio.timeout(ENOUGH):
        await (await waiter).release()
    assert await here.available() == 1


@pytest.mark.not_in_queues("permits do not change")
async def test_set_permits_lasts_while_no_one_holds_any(here: Semaphore, locks: LockManager, place: Place) -> None:
    await here.set_permits(7)
    async with here:
        pass
    assert await locks.semaphore(NAME, 3).available() == 7
    (state,) = place.keys()
    assert place.side.pttl(state) > 3600 * 1000


@waits
@pytest.mark.not_in_queues("permits do not change")
async def test_a_request_for_more_than_there_are(here: Semaphore, there: Semaphore) -> None:
    """The same for a request that waits while the number is lowered, wherever it stands in the queue."""
    with pytest.raises(ConfigurationError, match=f"'{NAME}' was asked for 4 at once, but has 3 in all"):
        await here.acquire(4)
    with pytest.raises(ConfigurationError, match="has 3 in all"):
        await here.try_acquire(4)
    lease = await here.acquire(2)
    waiters = [asyncio.create_task(semaphore.acquire(n)) for semaphore, n in ((here, 3), (there, 2), (there, 3))]
    await queued(here, 3)
    await there.set_permits(2)
    async with asyncio.timeout(ENOUGH):
        for waiter in (waiters[0], waiters[2]):
            with pytest.raises(ConfigurationError, match="asked for 3 at once, but has 2 in all"):
                await waiter
        assert not waiters[1].done()
        await lease.release()
        await (await waiters[1]).release()
    assert await here.available() == 2


async def test_invalid_numbers_of_permits(locks: LockManager, place: Place) -> None:
    semaphore = locks.semaphore(NAME, 3)
    for permits in (0, -1, True, 1.5, "3", None, 2**31):
        with pytest.raises(ConfigurationError, match=f"permits of semaphore '{NAME}' must be a whole number"):
            locks.semaphore(NAME, permits)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=f"n of semaphore '{NAME}'"):
            await semaphore.acquire(permits)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="permits of"):
            await semaphore.set_permits(permits)  # type: ignore[arg-type]
    assert place.keys() == set()


async def test_a_nested_timeout_does_not_mention_owners(here: Semaphore) -> None:
    """There is nothing to share: a semaphore is not reentrant. Kept by Kin.of: `reentrant`."""
    async with here.acquire(3):
        with pytest.raises(AcquireTimeout) as caught:
            await here.acquire(timeout=0)
    assert "owner=" not in str(caught.value)
    assert NAME in str(caught.value)


async def test_release_by_name_ends_the_innermost(here: Semaphore) -> None:
    one, two = await here.acquire(), await here.acquire(2)
    await here.release()
    assert (one.released, two.released) == (False, True)
    assert await here.available() == 2
    await here.release()
    assert one.released


@revoked
@pytest.mark.not_in_queues("a free name has no state")
async def test_each_lease_is_lost_by_itself(here: Semaphore, there: Semaphore, place: Place) -> None:
    leases = [await here.acquire(), await there.acquire(2)]
    assert await here.force_release()
    async with asyncio.timeout(ENOUGH):
        assert [await lease.wait_lost() for lease in leases] == [LossReason.REVOKED] * 2
    for lease in leases:
        with pytest.raises(LockLost):
            await lease.release()
    assert await here.available() == 3
    await until(lambda: len(place.keys()) == 1)


async def test_info(here: Semaphore, there: Semaphore) -> None:
    assert await here.info() == SemaphoreInfo(
        permits=3, declared=3, available=3, used=0, holders=0, waiters=0, position=None
    )
    async with here.acquire(2), there:
        waiter = asyncio.create_task(there.acquire())
        await queued(there)
        assert await there.info() == SemaphoreInfo(
            permits=3, declared=3, available=0, used=3, holders=2, waiters=1, position=1
        )
        assert await here.info() == SemaphoreInfo(
            permits=3, declared=3, available=0, used=3, holders=2, waiters=1, position=None
        )
    await (await waiter).release()


@pytest.fixture
async def processes(place: Place) -> AsyncIterator[list[LockManager]]:
    async with place.manager() as one, place.manager() as two:
        yield [one, two]


async def test_never_above_its_permits_under_load(processes: list[LockManager]) -> None:
    """2 managers × 8 tasks that take 1 to 3 of 4 permits, some of which give up; fences differ."""
    out = most = 0
    fences: list[int] = []

    async def work(number: int) -> None:
        nonlocal out, most
        semaphore = processes[number % 2].semaphore(NAME, 4)
        for turn in range(5):
            n = 1 + (number + turn) % 3
            try:
                async with semaphore.acquire(n, timeout=0.05 if (number * turn) % 5 == 1 else 30) as lease:
                    out += n
                    most = max(most, out)
                    assert out <= 4
                    fences.append(lease.fence)
                    await asyncio.sleep(0.001)
                    out -= n
            except (AcquireTimeout, BackendError):
                pass  # the latter if even the first answer did not come in time

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for number in range(16):
            group.create_task(work(number))
    assert most == 4
    assert len(set(fences)) == len(fences) >= 60
    assert await processes[0].semaphore(NAME, 4).available() == 4
