"""Locks in taskiq: the workers' manager."""

from __future__ import annotations

from typing import Annotated

from ..errors import ConfigurationError
from ..manager import LockManager
from .extra import needs

with needs("taskiq"):
    from taskiq import AsyncBroker, TaskiqDepends, TaskiqEvents, TaskiqState


def init(broker: AsyncBroker, locks: LockManager, *, strict: bool = False) -> None:
    """Open the manager while a worker of this broker runs; it is in the worker's `state.locks`.

    Call it before you add what uses locks at start-up. A task takes its lock by `exclusive(locks, key=…)` below
    `@broker.task`, or with the dependency `Locks`. A dependency cannot hold a lock for a task: taskiq would take a loss
    for a cancellation.

    A task whose lock another one has fails with `Busy`, unless it waits. Let taskiq try it again:
    `SmartRetryMiddleware(types_of_exceptions=[NotRun], default_retry_label=True)`. That repeats no task that ran,
    unless it lets the `NotRun` of another decorated function pass. With a broker that does not delay tasks, such as the
    one below, give it a `schedule_source`; otherwise all its tries are over at once.

    Args:
        broker: the broker.
        locks: the manager.
        strict: True if the worker must not start without Redis. Otherwise it starts with a WARNING, and jobs that need
            a lock are not run until Redis is there: see `LockManager.open()`.

    Example:
        ```python
        broker = ListQueueBroker(url)
        locks = LockManager(url)
        init(broker, locks)


        @broker.task
        @exclusive(locks, key="order:{order}", busy="raise")
        async def ship(order: str) -> None: ...
        ```
    """

    async def open_locks(state: TaskiqState) -> None:
        state.locks = await locks.open(strict=strict)

    async def close_locks(state: TaskiqState) -> None:
        await locks.close()

    broker.add_event_handler(TaskiqEvents.WORKER_STARTUP, open_locks)
    broker.add_event_handler(TaskiqEvents.WORKER_SHUTDOWN, close_locks)


def get_locks(state: Annotated[TaskiqState, TaskiqDepends()]) -> LockManager:
    """Return the worker's manager; a dependency.

    Args:
        state: the worker's.

    Raises:
        ConfigurationError: the broker was not given one.
    """
    locks = state.get("locks")
    if not isinstance(locks, LockManager):
        raise ConfigurationError("", "this broker has no locks: call aiolock.contrib.taskiq.init(broker, locks)")
    return locks


Locks = Annotated[LockManager, TaskiqDepends(get_locks)]
"""A parameter for the worker's manager: `async def ship(order: str, locks: Locks)`."""
