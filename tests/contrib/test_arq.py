"""Jobs under a lock, in a worker of arq. Its redis-py is older than the one of the suite: `make test-frameworks`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiolock import ConfigurationError, LockLost, LockManager, NotOwned
from tests.contrib.conftest import NAME, Work
from tests.support import redis_cli

arq = pytest.importorskip("arq", reason="arq wants redis-py < 6: make test-frameworks")

from arq.connections import ArqRedis, RedisSettings  # noqa: E402
from arq.worker import Retry, Worker, func  # noqa: E402

from aiolock.contrib.arq import get_locks, locked, shutdown, startup  # noqa: E402
from aiolock.recipes import Busy, Unavailable, reserve, reserved  # noqa: E402

pytestmark = [  # both are arq's: the second one if its worker is cancelled
    pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed client session:ResourceWarning"),
]
works: list[Work] = []
JOB = "job:ship:42"


@locked("order:{order}", defer=0.01)
async def ship(ctx: dict[Any, Any], order: str) -> int:
    await works[-1]()
    return int(ctx["job_try"])


@locked("order:{order}", defer=0.01)
async def ship_and_pay(ctx: dict[Any, Any], order: str) -> None:
    """Ran in part when the other one says that it did not."""
    works[-1].cancelled += 1
    await pay(ctx, order)


@locked("payment:{order}")
async def pay(ctx: dict[Any, Any], order: str) -> None: ...


@reserved(get_locks, within=60.0, retry=Retry)
async def ship_once(ctx: dict[Any, Any], order: str, *, ticket: str) -> int:
    """Its first try fails."""
    if ctx["job_try"] == 1:
        raise Retry(defer=0.01)
    await works[-1]()
    return int(ctx["job_try"])


class Queue:
    """A queue, and a worker for it."""

    def __init__(self, pool: ArqRedis, locks: LockManager) -> None:
        self.pool = pool
        self.worker = Worker(
            [func(fn, name=fn.__name__) for fn in (ship, ship_and_pay, ship_once)],
            redis_pool=pool,
            on_startup=startup(locks),
            on_shutdown=shutdown,
            handle_signals=False,
            poll_delay=0.01,
            max_tries=1000,
        )


@pytest.fixture
async def queue(redis_url: str, work: Work) -> AsyncIterator[Queue]:
    """A queue whose worker runs."""
    works.append(work)
    pool, locks = await arq.create_pool(RedisSettings.from_dsn(redis_url)), LockManager(redis_url)
    queue = Queue(pool, locks)
    running = asyncio.create_task(queue.worker.async_run())
    yield queue
    running.cancel()
    await asyncio.wait([running])
    await queue.worker.close()
    assert "closed" in repr(locks)
    works.clear()


async def test_a_job_that_finds_the_lock_held_comes_again(queue: Queue, work: Work, elsewhere: LockManager) -> None:
    work.go_on.set()
    async with elsewhere.lock(NAME):
        job = await queue.pool.enqueue_job("ship", "42")
        while not queue.worker.jobs_retried:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await job.result(timeout=10, poll_delay=0.01) > 1


async def test_the_lock_is_lost(queue: Queue, work: Work, elsewhere: LockManager) -> None:
    """The job fails, and is not repeated: it did run."""
    job = await queue.pool.enqueue_job("ship", "42")
    await work.begun.wait()
    await elsewhere.lock(NAME).force_release()
    with pytest.raises(LockLost):
        await job.result(timeout=10, poll_delay=0.01)
    assert (work.cancelled, queue.worker.jobs_retried) == (1, 0)


async def test_a_job_that_ran_does_not_come_again(queue: Queue, work: Work, elsewhere: LockManager) -> None:
    """Though it ends with what says that another function, which it called, was not run."""
    async with elsewhere.lock("payment:42"):
        job = await queue.pool.enqueue_job("ship_and_pay", "42")
        with pytest.raises(Busy, match="payment:42"):
            await job.result(timeout=10, poll_delay=0.01)
    assert (work.cancelled, queue.worker.jobs_retried) == (1, 0)


async def test_what_waiting_cannot_mend_does_not_come_again(redis_url: str) -> None:
    """Here the key belongs to another program."""
    key = "aiolock:lock:{order:42}"
    with redis_cli.client(redis_url) as client:
        client.set(key, "no lock")
        async with LockManager(redis_url) as locks:
            with pytest.raises(Unavailable, match="WRONGTYPE"):
                await ship({"locks": locks}, "42")
        client.delete(key)


async def test_shutdown_with_a_job_inside(queue: Queue, work: Work, elsewhere: LockManager) -> None:
    """arq cancels it, and runs it again elsewhere: its lock is free."""
    await queue.pool.enqueue_job("ship", "42")
    await work.begun.wait()
    await queue.worker.close()
    async with elsewhere.lock(NAME).acquire(timeout=5.0) as lease:
        assert not lease.abandoned
    assert work.cancelled == 1


async def test_a_job_is_unique_from_enqueue_to_its_end(queue: Queue, work: Work, elsewhere: LockManager) -> None:
    """Over arq's own retries, which send the same arguments. One that comes twice runs once. Kept by `reserved()`."""
    ticket = await reserve(elsewhere, JOB, within=60.0)
    assert ticket is not None
    assert await reserve(elsewhere, JOB, within=60.0) is None
    job = await queue.pool.enqueue_job("ship_once", "42", ticket=ticket)
    async with asyncio.timeout(10):
        await work.begun.wait()
    assert queue.worker.jobs_retried == 1
    assert await reserve(elsewhere, JOB, within=60.0) is None
    work.go_on.set()
    assert await job.result(timeout=10, poll_delay=0.01) == 2
    assert not await elsewhere.lock(JOB).is_locked()
    again = await queue.pool.enqueue_job("ship_once", "42", ticket=ticket)
    with pytest.raises(NotOwned, match="no longer valid"):
        await again.result(timeout=10, poll_delay=0.01)


async def test_shutdown_with_a_reserved_job_inside(queue: Queue, work: Work, elsewhere: LockManager) -> None:
    """arq cancels it, which frees the name, and runs it again elsewhere, with the same ticket."""
    ticket = await reserve(elsewhere, JOB, within=60.0)
    await queue.pool.enqueue_job("ship_once", "42", ticket=ticket)
    async with asyncio.timeout(10):
        await work.begun.wait()
    await queue.worker.close()
    assert work.cancelled == 1
    assert not await elsewhere.lock(JOB).is_locked()
    work.go_on.set()
    assert await ship_once({"locks": elsewhere, "job_try": 3}, "42", ticket=ticket) == 3
    assert not await elsewhere.lock(JOB).is_locked()


async def test_a_worker_without_locks() -> None:
    await shutdown({})  # as after a start-up that failed
    with pytest.raises(ConfigurationError, match="on_startup = "):
        get_locks({})
