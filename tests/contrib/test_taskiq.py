"""Tasks under a lock, in an in-memory broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from taskiq import InMemoryBroker, SmartRetryMiddleware

from aiolock import ConfigurationError, LockLost, LockManager, LossReason
from aiolock.contrib.taskiq import Locks, init
from aiolock.recipes import Busy, NotRun, exclusive, reserve, reserved
from tests.contrib.conftest import NAME, Work


@pytest.fixture
def locks(redis_url: str) -> LockManager:
    """The worker's manager."""
    return LockManager(redis_url)


@pytest.fixture
async def broker(locks: LockManager) -> AsyncIterator[InMemoryBroker]:
    """A broker whose worker runs here."""
    broker = InMemoryBroker().with_middlewares(
        SmartRetryMiddleware(types_of_exceptions=[NotRun], default_retry_label=True, default_delay=0)
    )
    init(broker, locks)
    await broker.startup()
    yield broker
    await broker.shutdown()
    assert "closed" in repr(locks)


async def test_a_task_gets_the_manager(broker: InMemoryBroker, elsewhere: LockManager) -> None:
    @broker.task
    async def ship(order: str, locks: Locks) -> bool:
        async with locks.lock(f"order:{order}"):
            return await elsewhere.lock(NAME).is_locked()

    result = await (await ship.kiq("42")).wait_result(timeout=10)
    assert result.return_value is True


async def test_a_task_that_finds_the_lock_held_is_tried_again(
    broker: InMemoryBroker, locks: LockManager, elsewhere: LockManager
) -> None:
    """By taskiq's own middleware, as it never ran. One that keeps failing has `Busy` for its result."""
    ran: list[str] = []

    @broker.task
    @exclusive(locks, key="order:{order}", busy="raise")
    async def ship(order: str) -> str:
        ran.append(order)
        return f"shipped {order}"

    async with elsewhere.lock(NAME):
        result = await (await ship.kiq("42")).wait_result(timeout=10)
    assert isinstance(result.error, Busy)
    result = await (await ship.kiq("42")).wait_result(timeout=10)
    assert result.return_value == "shipped 42"
    assert ran == ["42"]


async def test_the_lock_is_lost(broker: InMemoryBroker, locks: LockManager, elsewhere: LockManager, work: Work) -> None:
    """The task is cancelled, has the loss for its result, and is not repeated: it did run."""

    @broker.task
    @exclusive(locks, key="order:{order}")
    async def ship(order: str) -> None:
        await work()

    task = await ship.kiq("42")
    await work.begun.wait()
    await elsewhere.lock(NAME).force_release()
    result = await task.wait_result(timeout=10)
    assert isinstance(result.error, LockLost)
    assert work.cancelled == 1


async def test_shutdown_with_a_task_inside(
    broker: InMemoryBroker, locks: LockManager, elsewhere: LockManager, work: Work
) -> None:
    """The worker does not wait for it: the task is cancelled, and its lock is given back."""

    @broker.task
    @exclusive(locks, key="order:{order}")
    async def ship(order: str) -> None:
        await work()

    task = await ship.kiq("42")
    await work.begun.wait()
    await broker.shutdown()
    result = await task.wait_result(timeout=10)
    assert isinstance(result.error, LockLost)
    assert result.error.reason is LossReason.CLOSED
    async with elsewhere.lock(NAME).acquire(timeout=5.0):
        assert work.cancelled == 1


async def test_a_broker_without_locks() -> None:
    broker = InMemoryBroker()

    @broker.task
    async def ship(locks: Locks) -> None: ...

    result = await (await ship.kiq()).wait_result(timeout=10)
    assert isinstance(result.error, ConfigurationError)
    await broker.shutdown()


class Again(Exception):
    """taskiq tries a task again for it."""


async def test_a_task_is_unique_from_enqueue_to_its_end(locks: LockManager, elsewhere: LockManager) -> None:
    """Over taskiq's own retries, which send the same arguments. Kept by `reserved()`."""
    again = SmartRetryMiddleware(types_of_exceptions=[NotRun, Again], default_retry_label=True, default_delay=0)
    broker = InMemoryBroker(await_inplace=True).with_middlewares(again)
    init(broker, locks)
    tickets: list[str | None] = []

    @broker.task
    @reserved(locks, within=60.0, retry=Again)
    async def ship(order: str, *, ticket: str) -> str:
        tickets.append(ticket)
        assert await reserve(elsewhere, "job:42", within=60.0) is None
        if len(tickets) < 3:
            raise Again
        return f"shipped {order}"

    await broker.startup()
    ticket = await reserve(elsewhere, "job:42", within=60.0)
    assert ticket is not None
    await ship.kiq("42", ticket=ticket)
    await broker.shutdown()
    assert tickets == [ticket] * 3
    assert not await elsewhere.lock("job:42").is_locked()
