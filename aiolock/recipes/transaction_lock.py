"""A lock for the rest of a transaction, in the database that keeps the locks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from ..backends.transactional.channels import hold_of
from ..clock import format_seconds
from ..core.policy import check_timeout
from ..errors import AcquireTimeout, BackendError, ConfigurationError
from ..scripts.keys import Keys, check_name
from .database_errors import NO_RIGHT, NO_TRANSACTION, code_of
from .transactions import Transactions, transactions

HOLD = "SELECT aiolock.hold_1(CAST({} AS text), CAST({} AS bigint), CAST({} AS bigint))"
SAVEPOINT = "aiolock_hold"
OLD_ROWS, DAMAGED = -1, -2
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.2
"""Seconds between two looks at a lock that somebody else has: doubled each time, and at most."""
DEADLOCK = "40P01"
NOT_THERE = frozenset({"42883", "3F000", NO_RIGHT})
"""No function, no schema, or no right."""


async def hold_in(
    connection: Any, name: str, *, timeout: float | timedelta | None = None, namespace: str = "aiolock"
) -> None:
    """Take a lock for the rest of your open transaction in the PostgreSQL database that keeps your locks.

    Whoever takes `locks.lock(name)` meanwhile waits, and so does another transaction that calls this. COMMIT or
    ROLLBACK frees it, and so does the end of the session; nothing else does, so it cannot be lost before your
    transaction is. There is no lease, nothing to renew, and no fence.

    Args:
        connection: with your transaction open: an asyncpg connection, a psycopg `AsyncConnection`, or an `AsyncSession`
            or `AsyncConnection` of SQLAlchemy. The isolation level is READ COMMITTED, as it is by default. For others
            see `aiolock.sync.hold_in`.
        name: of a `lock()`, `fair_lock()`, or part of a `multi_lock()`; the other kinds know nothing of it.
        timeout: seconds to wait at most; 0 tries once, and None waits for as long as it takes.
        namespace: of the manager's locks.

    Raises:
        AcquireTimeout: somebody else had it for all that time. Your transaction goes on.
        ConfigurationError: no open transaction of PostgreSQL, another isolation level, or a database in which no
            manager has kept locks.
        BackendError: the state of the lock is damaged.

        Whatever else your library raises goes on, such as a deadlock between two transactions that PostgreSQL found;
        a note on it names the lock.

    Cancellation: as with any statement of your library; the lock is held, or your transaction cannot go on. Cost: three
    round trips on your connection; while a lease lasts, five more a second. Leases that wait in a queue come first.
    Who waits for a lease looks for the end of your transaction five times a second.

    Example:
        ```python
        async with pool.acquire() as connection, connection.transaction():
            await aiolock.hold_in(connection, "order:42")
            await connection.execute("UPDATE orders SET paid = true WHERE id = 42")
        ```
    """
    await hold(transactions(name, connection, awaited=True, use="hold_in()"), name, timeout, namespace, asyncio.sleep)


async def hold(
    own: Transactions,
    name: str,
    timeout: float | timedelta | None,
    namespace: str,
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Do what `hold_in` says.

    Args:
        own: what the user's connection can do.
        name, timeout, namespace: see there.
        sleep: waits so many seconds.
    """
    check_name(name)
    ends = check_timeout(name, "timeout of hold_in()", timeout)
    if own.dialect != "postgresql":
        raise _unfit(name, f"in the PostgreSQL database that keeps the locks, not in {own.dialect}")
    key = Keys(namespace).of("lock", name).lock
    began = time.monotonic()
    try:
        await own.execute(f"SAVEPOINT {SAVEPOINT}")
        await own.execute(f"RELEASE SAVEPOINT {SAVEPOINT}")
    except Exception as error:
        if code_of(error) != NO_TRANSACTION:
            raise
        raise _unfit(name, "begin one before, on a connection without AUTOCOMMIT") from error
    pause = FIRST_PAUSE
    while True:
        left = None if ends is None else max(0.0, began + ends - time.monotonic())
        taken = await _try(own, name, key, left)
        if not taken:
            return
        if left == 0:
            text = f"lock {name!r} was not acquired within {format_seconds(ends or 0)} s: {_who(taken)}"
            raise AcquireTimeout(name, text)
        await sleep(min(pause, taken / 1000, LONGEST_PAUSE if left is None else left))
        pause = min(2 * pause, LONGEST_PAUSE)


async def _try(own: Transactions, name: str, key: str, left: float | None) -> int:
    """Take it; return 0, or for how many milliseconds somebody else has it."""
    wait = None if left is None else int(left * 1000)
    try:
        row = await own.execute(HOLD, key.replace("\0", "%00"), hold_of(key), wait)
    except Exception as error:
        if code_of(error) == DEADLOCK:
            error.add_note(f"hold_in() waited for lock {name!r}: take several names in the same order everywhere")
        if code_of(error) not in NOT_THERE or ("aiolock" not in str(error) and "hold_1" not in str(error)):
            raise
        why = (
            f"in a database that has the functions of aiolock ({error}): open a LockManager on it before, or let its "
            "owner run aiolock/backends/postgres/schema.sql, and the grants in its first lines"
        )
        raise _unfit(name, why) from error
    found: int = row[0] if row is not None else DAMAGED
    if found == OLD_ROWS:
        raise _unfit(name, "with the isolation level READ COMMITTED: another one does not see who holds the lock now")
    if found == DAMAGED:
        raise BackendError(name, f"the state of lock {name!r} cannot be read: inspect it with aiolock ls")
    return found


def _who(taken: int) -> str:
    return "another transaction has it" if taken == 1 else f"held by a lease, for {format_seconds(taken / 1000)} s yet"


def _unfit(name: str, why: str) -> ConfigurationError:
    return ConfigurationError(name, f"hold_in() of lock {name!r} needs an open transaction: {why}")
