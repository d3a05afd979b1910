"""A body under a lock, and what the journal says of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiolock import Acquisition, BackendError, Lease, LockLost
from tests.histories.journal import Journal, Operation

Body = Callable[[Operation, Lease], Awaitable[object]]


async def use(journal: Journal, kind: str, names: str, taking: Acquisition[Lease], body: Body, **how: Any) -> bool:
    """Acquire something, run a body, and note all of it.

    Args:
        kind: as `Journal.begin` has it.
        names: one letter each, or a single name.
        how: fields of its begin.

    Returns:
        Whether the body ran to its end, under a lock that was not lost.
    """
    operation = journal.begin(kind, *([names] if kind != "multi" else names), **how)
    end = {"how": "done"}
    try:
        async with taking as lease:
            operation.note("granted", fence=lease.fence, lost=lease.lost, abandoned=lease.abandoned)
            try:
                await body(operation, lease)
            finally:
                operation.note("left")
    except LockLost as lost:
        end = {"how": "lost", "reason": lost.reason.name}
    except (BackendError, TimeoutError) as error:
        end = {"how": "missed", "reason": type(error).__name__}
    operation.note("ended", **end)
    return end["how"] == "done"
