"""Jobs under a lock, in a worker of arq. Its redis-py is older than the one of the suite: `make test-frameworks`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiolock import ConfigurationError, LockLost, LockManager
from tests.contrib.conftest import NAME, Work

arq = pytest.importorskip("arq", reason="arq wants redis-py < 6: make test-frameworks")

from arq.connections import ArqRedis, RedisSettings  # noqa: E402
from arq.worker import Worker, func  # noqa: E402

from aiolock.contrib.arq import get_locks, locked, shutdown, startup  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning")  # arq's
works: list[Work] = []


@locked("order:{order}", defer=0.01)
async def ship(ctx: dict[Any, Any], order: str) -> int:
    await works[-1]()
    return int(ctx["job_try"])


class Queue:
    """A queue, and a worker for it."""

    def __init__(self, pool: ArqRedis, locks: LockManager) -> None:
        self.pool = pool
        self.worker = Worker(
            [func(ship, name="ship")],
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


async def test_shutdown_with_a_job_inside(queue: Queue, work: Work, elsewhere: LockManager) -> None:
    """arq cancels it, and runs it again elsewhere: its lock is free."""
    await queue.pool.enqueue_job("ship", "42")
    await work.begun.wait()
    await queue.worker.close()
    async with elsewhere.lock(NAME).acquire(timeout=5.0) as lease:
        assert not lease.abandoned
    assert work.cancelled == 1


async def test_a_worker_without_locks() -> None:
    await shutdown({})  # as after a start-up that failed
    with pytest.raises(ConfigurationError, match="on_startup = "):
        get_locks({})
