"""A job's reservation, from enqueue to its end: two managers are the one that enqueues and the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from aiolock import ConfigurationError, LockLost, LockManager, NotOwned
from aiolock.recipes import Busy, Unavailable, exclusive, reserve, reserved, unreserve
from aiolock.testing import MemoryBackend
from tests.support.locks import let_expire

from .places import TTL_MS, Place, renew_now, until

NAME = "job:ship:42"
Job = Callable[..., Coroutine[Any, Any, str]]


class Again(Exception):
    """What a framework runs a job again for."""


class Work:
    """A job of a worker, which fails as it is told."""

    def __init__(self, locks: LockManager, **options: Any) -> None:
        self.errors: list[BaseException] = []
        self.ran = 0

        @reserved(locks, within=60.0, **options)
        async def ship(order: str, *, ticket: str) -> str:
            self.ran += 1
            if self.errors:
                raise self.errors.pop(0)
            return f"shipped {order}"

        self.job: Job = ship


async def reservation(locks: LockManager, within: float = 60.0) -> str:
    ticket = await reserve(locks, NAME, within=within)
    assert ticket is not None
    return ticket


async def test_nobody_else_enqueues_it_until_it_has_ended(locks: LockManager, others: LockManager) -> None:
    """Kept by `reserve()`, and by the end in `reserved()`."""
    ticket = await reservation(locks)
    assert await reserve(others, NAME, within=60.0) is None
    work = Work(others)
    assert await work.job("42", ticket=ticket) == "shipped 42"
    assert await unreserve(others, await reservation(others))


async def test_it_stays_over_a_retry_with_the_same_ticket(
    locks: LockManager, others: LockManager, place: Place
) -> None:
    """Also over several, and over one in another worker. Kept by `stays`."""
    ticket = await reservation(locks)
    work = Work(others, retry=Again)
    work.errors = [Again(), Again()]
    for _ in range(2):
        with pytest.raises(Again):
            await work.job("42", ticket=ticket)
        assert await reserve(locks, NAME, within=60.0) is None
    assert await Work(locks).job("42", ticket=ticket) == "shipped 42"
    assert place.gone(NAME)
    assert work.ran == 2


@pytest.mark.parametrize("error", [ValueError("bad"), Again("the last attempt")])
async def test_an_error_ends_it_if_the_job_does_not_run_again(
    locks: LockManager, others: LockManager, place: Place, error: Exception
) -> None:
    """A function of the error knows which attempt is the last. Broken by a reservation that outlives its job."""
    ticket = await reservation(locks)
    work = Work(others, retry=lambda raised: not raised.args)
    work.errors = [error]
    with pytest.raises(type(error)):
        await work.job("42", ticket=ticket)
    assert place.gone(NAME)


async def test_a_job_that_another_decorator_did_not_run_keeps_it(locks: LockManager, others: LockManager) -> None:
    """Kept by `stays`: the framework tries `NotRun` again, or whoever enqueued it revokes it."""
    ticket = await reservation(locks)

    @reserved(others, within=60.0)
    @exclusive(others, key="order:{order}", busy="raise")
    async def ship(order: str, *, ticket: str) -> str:
        return order

    async with locks.lock("order:42"):
        with pytest.raises(Busy):
            await ship("42", ticket=ticket)
    assert await ship("42", ticket=ticket) == "42"


async def test_a_job_that_is_cancelled_frees_the_name(locks: LockManager, others: LockManager, place: Place) -> None:
    """Another can reserve it at once; if nobody has, it runs when it is delivered again. Breaks if `ended_by` leaves a
    cancelled job's reservation, or ends it as one that is done."""
    ticket = await reservation(locks)
    work = Work(others)
    work.errors = [asyncio.CancelledError(), asyncio.CancelledError()]
    for _ in range(2):
        with pytest.raises(asyncio.CancelledError):
            await work.job("42", ticket=ticket)
        assert not await locks.lock(NAME).is_locked()
    assert await work.job("42", ticket=ticket) == "shipped 42"
    with pytest.raises(NotOwned):
        await work.job("42", ticket=ticket)
    assert place.gone(NAME)


async def test_a_job_that_was_cancelled_and_comes_after_another(locks: LockManager, others: LockManager) -> None:
    """It is not run: the other one did its work. Breaks if `_recover` does not look how the name was left."""
    ticket = await reservation(locks)
    work = Work(others)
    work.errors = [asyncio.CancelledError()]
    with pytest.raises(asyncio.CancelledError):
        await work.job("42", ticket=ticket)
    assert await work.job("42", ticket=await reservation(locks)) == "shipped 42"
    with pytest.raises(NotOwned):
        await work.job("42", ticket=ticket)


class Slow:
    """A job that runs until it is told.

    Args:
        locks: of its worker.
    """

    def __init__(self, locks: LockManager) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.raises: Exception | None = None

        @reserved(locks, within=60.0, retry=Again)
        async def ship(*, ticket: str) -> str:
            self.begun.set()
            await self.go_on.wait()
            if self.raises is not None:
                raise self.raises
            return "shipped"

        self._job = ship

    async def start(self, ticket: str) -> asyncio.Task[str]:
        """Return it when it runs."""
        task = asyncio.create_task(self._job(ticket=ticket))
        async with asyncio.timeout(10.0):
            await self.begun.wait()
        return task


async def test_a_running_job_is_a_lease(locks: LockManager, others: LockManager, place: Place) -> None:
    """With the worker's ttl, however long its reservation was. Breaks if the attempt goes on under the reservation."""
    slow = Slow(locks)
    task = await slow.start(await reservation(others))
    assert [lease.name for lease in locks.leases()] == [NAME]
    assert 0 < place.state(NAME).pttl <= TTL_MS
    slow.go_on.set()
    assert await task == "shipped"
    assert place.gone(NAME)


async def test_the_wait_for_a_retry_has_the_whole_time(locks: LockManager, others: LockManager, place: Place) -> None:
    """And nobody renews it. Kept by `wait_again`."""
    slow = Slow(locks)
    slow.raises = Again()
    ticket = await reservation(others, within=20.0)
    assert TTL_MS < place.state(NAME).pttl <= 20_000
    slow.go_on.set()
    with pytest.raises(Again):
        await (await slow.start(ticket))
    assert not locks.leases()
    assert 20_000 < place.state(NAME).pttl <= 60_000
    assert await unreserve(others, ticket)
    assert place.gone(NAME)


@pytest.mark.parametrize("retried", [False, True])
async def test_two_deliveries_at_once(locks: LockManager, others: LockManager, retried: bool) -> None:
    """The second is not run, and does not end the first. Kept by `begin`."""
    ticket = await reservation(locks)
    work = Work(others, retry=Again)
    if retried:
        work.errors = [Again()]
        with pytest.raises(Again):
            await work.job("42", ticket=ticket)
    slow = Slow(locks)
    task = await slow.start(ticket)
    with pytest.raises(Busy, match="delivered twice"):
        await work.job("42", ticket=ticket)
    assert not await unreserve(others, ticket)
    slow.go_on.set()
    assert await task == "shipped"
    with pytest.raises(NotOwned):
        await work.job("42", ticket=ticket)


async def test_a_worker_that_dies(locks: LockManager, others: LockManager, place: Place) -> None:
    """The name is free after the ttl; the job is delivered again, and runs. Kept by `_recover`."""
    ticket = await reservation(locks)
    task = await Slow(locks).start(ticket)
    let_expire(place.side, NAME)
    assert await Work(others).job("42", ticket=ticket) == "shipped 42"
    task.cancel()
    await asyncio.wait((task,))


async def test_a_loss_cancels_the_job(locks: LockManager, others: LockManager) -> None:
    """By its next renewal at the latest. Kept by the lease in `reserved.call`."""
    task = await Slow(locks).start(await reservation(others))
    assert await others.lock(NAME).force_release()
    async with asyncio.timeout(10.0):
        with pytest.raises(LockLost):
            await task


@pytest.mark.parametrize("metadata", ["job 4711", None])
async def test_who_is_refused_learns_of_which_job(
    locks: LockManager, others: LockManager, metadata: str | None
) -> None:
    """In the queue, while it runs, and before its retry; never the job's secret. Kept by `told`, and `unpack`."""

    async def told() -> str | None:
        attempt = others.lock(NAME).try_acquire()
        assert await attempt is None
        assert attempt.holder is not None
        info = await others.lock(NAME).info()
        assert info is not None
        assert info.metadata == attempt.holder.metadata
        return info.metadata

    ticket = await reserve(locks, NAME, within=60.0, metadata=metadata)
    assert ticket is not None
    assert await told() == metadata
    slow = Slow(locks)
    task = await slow.start(ticket)
    assert await told() == metadata
    slow.raises = Again()
    slow.go_on.set()
    with pytest.raises(Again):
        await task
    assert await told() == metadata
    assert await unreserve(locks, ticket)


async def test_a_delivery_after_the_end_is_not_run(locks: LockManager, others: LockManager) -> None:
    """Also if another reservation of the name is in force, which stays. Kept by `Reservation.begin`."""
    ticket = await reservation(locks)
    work = Work(others)
    await work.job("42", ticket=ticket)
    with pytest.raises(NotOwned, match="no longer valid: the lock is free"):
        await work.job("42", ticket=ticket)
    second = await reservation(locks)
    with pytest.raises(NotOwned, match="no longer valid: another owner"):
        await work.job("42", ticket=ticket)
    assert work.ran == 1
    assert not await unreserve(locks, ticket)
    assert await work.job("42", ticket=second) == "shipped 42"


async def test_a_job_that_was_revoked_is_not_run(locks: LockManager, others: LockManager, place: Place) -> None:
    ticket = await reservation(locks)
    assert await unreserve(locks, ticket)
    assert place.gone(NAME)
    work = Work(others)
    with pytest.raises(NotOwned):
        await work.job("42", ticket=ticket)
    assert not work.ran
    assert not await unreserve(locks, ticket)


async def test_a_job_that_comes_too_late(locks: LockManager, others: LockManager, place: Place) -> None:
    """It runs, if nobody has reserved or locked the name since: its reservation goes on. Otherwise it does not."""
    work = Work(others)
    ticket = await reservation(locks)
    let_expire(place.side, NAME)
    assert await work.job("42", ticket=ticket) == "shipped 42"
    ticket = await reservation(locks)
    let_expire(place.side, NAME)
    second = await reservation(others)
    with pytest.raises(NotOwned):
        await work.job("42", ticket=ticket)
    assert work.ran == 1
    assert await unreserve(locks, second)


async def test_a_time_shorter_than_the_managers_ttl(locks: LockManager, place: Place) -> None:
    """The name is free after it, not after the ttl. Kept by the policy in `reserve()`."""
    await reservation(locks, within=3.0)
    assert 0 < place.state(NAME).pttl <= 3_000


async def test_it_passes_to_who_waits_for_the_name(locks: LockManager, others: LockManager) -> None:
    """The name is a lock's: what waits for it enters at the end, without `abandoned`."""
    ticket = await reservation(locks)
    waiter = asyncio.ensure_future(others.lock(NAME).acquire())
    await until(lambda: others.waiting())
    await Work(locks).job("42", ticket=ticket)
    async with asyncio.timeout(10.0):
        lease = await waiter
    assert not lease.abandoned
    renew_now(lease)
    await lease.release()


# What needs no place.


async def test_a_server_that_is_away() -> None:
    """Before the job it is not run; after it, its result counts, and a WARNING says what is left."""
    backend = MemoryBackend()
    async with LockManager(backend, request_timeout=0.2) as locks:
        ticket = await reservation(locks)
        work = Work(locks)
        with backend.outage(), pytest.raises(Unavailable):
            await work.job("42", ticket=ticket)
        assert not work.ran

        slow = Slow(locks)
        task = await slow.start(ticket)
        with backend.outage():
            slow.go_on.set()
            await backend.clock.advance(1.0)
            assert await task == "shipped"


async def test_a_server_that_is_away_before_a_retry() -> None:
    """The job's own error counts, and it runs again, if nobody took the name. Kept by the `except` of `wait_again`."""
    backend = MemoryBackend()
    async with LockManager(backend, request_timeout=0.2) as locks:
        ticket = await reservation(locks)
        slow = Slow(locks)
        slow.raises = Again()
        task = await slow.start(ticket)
        with backend.outage():
            slow.go_on.set()
            await backend.clock.advance(1.0)
            with pytest.raises(Again):
                await task
        await backend.clock.advance(31.0)
        assert not await locks.lock(NAME).is_locked()
        assert await Work(locks).job("42", ticket=ticket) == "shipped 42"


async def test_a_manager_that_closes_before_the_job_has_ended() -> None:
    """What it did counts. Kept by `at_its_end`."""
    async with LockManager(MemoryBackend()) as locks:

        @reserved(locks, within=60.0)
        async def ship(*, ticket: str) -> str:
            closing = asyncio.create_task(locks.close())
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            assert not closing.done()
            return "shipped"

        assert await ship(ticket=await reservation(locks)) == "shipped"


@pytest.mark.parametrize("margin", [None, 3.0])
async def test_a_reservation_shorter_than_the_managers_margin(margin: float | None) -> None:
    """Kept by the smaller margin in `reserve()`: the hold would be over as soon as it began."""
    async with LockManager(MemoryBackend(), margin=margin) as locks:
        assert await unreserve(locks, await reservation(locks, within=1.0))


async def test_what_cannot_be_reserved() -> None:
    """Nothing is held then, and a lease that the task has stays. Kept by `check_ttl` in `reserve`, and its `except`."""
    backend = MemoryBackend()
    async with LockManager(backend) as locks, LockManager(MemoryBackend(backend)) as others:
        async with others.lock(NAME):
            with pytest.raises(ConfigurationError, match="ttl"):
                await reserve(locks, NAME, within=0.0)
        async with locks.lock(NAME):
            with pytest.raises(ConfigurationError):
                await reserve(locks, NAME, within=60.0)
            assert await locks.lock(NAME).is_locked()


def test_options_that_cannot_work() -> None:
    locks: Any = LockManager("memory://reserved?processes=1")

    async def ship(order: str) -> None: ...

    with pytest.raises(ConfigurationError, match=r"needs the argument 'ticket' for its ticket"):
        reserved(locks, within=60.0)(ship)
    with pytest.raises(ConfigurationError, match="retry must be"):
        reserved(locks, within=60.0, retry=(Again, "again"))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="needs a LockManager"):
        reserved("redis://", within=60.0)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="ttl"):
        reserved(locks, within=0.0)
    with pytest.raises(TypeError, match="coroutine functions"):
        reserved(locks, within=60.0, ticket="self")(print)  # type: ignore[arg-type]


async def test_a_store_without_tickets() -> None:
    """It refuses, with nothing held. Kept by `need_scripts` in `reserve`."""
    locks = LockManager("etcd://localhost")
    with pytest.raises(ConfigurationError, match="tickets"):
        await reserve(locks, NAME, within=60.0)
