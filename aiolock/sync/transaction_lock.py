"""A lock for the rest of a transaction, for threads."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from ..recipes.transactions import finished, transactions


def hold_in(
    connection: Any, name: str, *, timeout: float | timedelta | None = None, namespace: str = "aiolock"
) -> None:
    """Take a lock for the rest of your open transaction in the PostgreSQL database that keeps your locks.

    As `aiolock.hold_in`, which says all of it.

    Args:
        connection: with your transaction open: a psycopg `Connection`, a `Session` or `Connection` of SQLAlchemy, or
            `django.db.connection` in an atomic block. The isolation level is READ COMMITTED, as it is by default.
        name: of a `lock()`, `fair_lock()`, or part of a `multi_lock()`; the other kinds know nothing of it.
        timeout: seconds to wait at most; 0 tries once, and None waits for as long as it takes.
        namespace: of the manager's locks.

    Raises:
        AcquireTimeout: somebody else had it for all that time. Your transaction goes on.
        ConfigurationError: no open transaction of PostgreSQL, another isolation level, or a database in which no
            manager has kept locks.
        BackendError: the state of the lock is damaged.

        Whatever else your library raises goes on, such as a deadlock between two transactions that PostgreSQL found.

    Interruption: as with any statement of your library. Cost: as `aiolock.hold_in`; this thread waits.

    Example:
        ```python
        with transaction.atomic():
            aiolock.sync.hold_in(connection, "order:42")
            Order.objects.filter(pk=42).update(paid=True)
        ```
    """
    from ..recipes.transaction_lock import hold  # costs only who uses it

    own = transactions(name, connection, awaited=False, use="hold_in()")
    finished(hold(own, name, timeout, namespace, _stand))


async def _stand(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - no loop runs it
