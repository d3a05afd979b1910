"""Transactions that only the holder of a lock can commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from types import TracebackType
from typing import TypeVar

from ..core.lease import Lease
from ..errors import ConfigurationError, LockLost, LossReason, note
from ..primitives.rw_lock import FULL
from .transactions import AsyncTransactions, Transactions, async_transactions, transactions

C = TypeVar("C")

FENCES_TABLE = "CREATE TABLE IF NOT EXISTS aiolock_fences (lock varchar(2000) PRIMARY KEY, fence bigint NOT NULL)"
"""SQL for the table that `fenced()` needs, in PostgreSQL and in SQLite: put it into your migrations."""

RAISE = (
    "INSERT INTO aiolock_fences (lock, fence) VALUES ({}, {}) "
    "ON CONFLICT (lock) DO UPDATE SET fence = excluded.fence WHERE aiolock_fences.fence <= excluded.fence"
)
LIMIT = "SET LOCAL idle_in_transaction_session_timeout = {}"


def fenced(lease: Lease, connection: C) -> AbstractAsyncContextManager[C]:
    """Return a transaction on your own connection that is committed only if no later holder has committed one.

    It begins a transaction, runs your block, writes the lease's fence into the table `aiolock_fences` as the last
    statement, and commits. If a higher fence is there, a later holder was faster: nothing of the block stays. So a
    holder that was frozen, or lost its lock without noticing, cannot overwrite what a later one wrote. The lock may be
    kept anywhere: on Redis, or in a file.

    In PostgreSQL the transaction is also ended if it stays idle for longer than the lease still lasts: a frozen holder
    does not keep others waiting for its rows.

    The table is yours to create; docs/how-to/fences.md has the statement, and so has the error if it is missing.

    Args:
        lease: of a `lock()`, `fair_lock()` or `multi_lock()`, or of the `write` side of an `rw_lock()`.
        connection: without an open transaction: an asyncpg connection, a psycopg `AsyncConnection`, an `AsyncSession`
            or `AsyncConnection` of SQLAlchemy, or an aiosqlite connection; the database is PostgreSQL or SQLite. For
            others see `aiolock.sync.fenced`.

    Returns:
        A context manager that you enter once; it gives `connection`.

    Raises:
        LockLost: on entering or leaving: the lease is lost, or a later holder has committed. It is rolled back.
        NotOwned: the lease was released.
        ConfigurationError: a lease that has nothing to itself, another kind of connection or database, or a transaction
            is open.

        Whatever your library raises goes on. If COMMIT gets no answer, it may have happened, as always.

    Cancellation: the transaction is rolled back, also after a loss: see `lease.shielded()`. Cost: one statement more,
    two in PostgreSQL; none on the server of the lock.

    Example:
        ```python
        async with locks.lock("order:42") as lease:
            async with aiolock.fenced(lease, connection):
                await connection.execute("UPDATE orders SET paid = true WHERE id = 42")
        ```

    Source: the fencing tokens of "How to do distributed locking" (Kleppmann, 2016), checked where SkyPilot and others
    check an epoch: in the writing transaction itself.
    """
    if not isinstance(lease, Lease):
        raise ConfigurationError("", f"fenced() needs the lease that `async with lock as lease:` gives, not {lease!r}")
    keys, own = keys_of(lease), async_transactions(lease.name, connection)
    check_dialect(lease.name, own)
    return lease.shielded(_transaction(lease, keys, connection, own))


@asynccontextmanager
async def _transaction(lease: Lease, keys: list[str], connection: C, own: AsyncTransactions) -> AsyncIterator[C]:
    lease.ensure()
    check_idle(lease.name, own)
    with telling() as losing:
        async with own.begin():
            if own.dialect == "postgresql":
                await own.execute(LIMIT.replace("{}", str(milliseconds(lease.remaining()))))
            yield connection
            with losing:
                lease.ensure()
                await own.flush()
                for key in keys:
                    judge(lease, await own.execute(RAISE, key, lease.fence))


@contextmanager
def fenced_block(lease: Lease, connection: C) -> Iterator[C]:
    """The same for a connection that is used without `await`: see `aiolock.sync.fenced`."""
    keys, own = keys_of(lease), transactions(lease.name, connection)
    check_dialect(lease.name, own)
    lease.ensure()
    check_idle(lease.name, own)
    with telling() as losing, own.begin():
        if own.dialect == "postgresql":
            own.execute(LIMIT.replace("{}", str(milliseconds(lease.remaining()))))
        yield connection
        with losing:
            lease.ensure()
            own.flush()
            for key in keys:
                judge(lease, own.execute(RAISE, key, lease.fence))


def judge(lease: Lease, rows: int) -> None:
    """Raise if the statement that writes the fence changed nothing: a higher one is there."""
    if rows == 0:
        raise LockLost(
            lease.name,
            f"lock {lease.name!r} (fence {lease.fence}) was lost before the commit: a later holder has committed, and "
            "this transaction was rolled back",
            LossReason.TAKEN_OVER,
        )


class Losing(AbstractContextManager["Losing"]):
    """The last statements of a transaction: what goes wrong there says what to do about it."""

    lost: LockLost | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, LockLost):
            self.lost = error
        elif isinstance(error, Exception) and "aiolock_fences" in str(error):
            note(error, f"fenced() needs a table: {FENCES_TABLE}")


@contextmanager
def telling() -> Iterator[Losing]:
    """Tell of a loss even if the connection is gone by then, so that the transaction cannot be rolled back by us."""
    losing = Losing()
    try:
        yield losing
    except Exception as error:
        if losing.lost is None or error is losing.lost:
            raise
        note(losing.lost, f"the database has ended the transaction itself: {error!r}")
        raise losing.lost from None


def milliseconds(seconds: float) -> int:
    """At least 1, as 0 would mean no limit."""
    return max(1, int(seconds * 1000))


def keys_of(lease: Lease) -> list[str]:
    """What the table calls the names of a lease, in the order in which they are written.

    Raises:
        ConfigurationError: others may be inside beside it.
    """
    calls, keys = lease._calls, lease._gate.runtime.keys
    if calls.kind in ("lock", "multi"):
        return sorted(keys.of("lock", name).lock for name in calls.names)
    if calls.kind == "rw" and calls.weight >= FULL:
        return [keys.of("rw", calls.name).lock]
    raise ConfigurationError(
        lease.name,
        f"this lease of {lease.name!r} has nothing to itself, so its fence does not say who is late: fenced() needs "
        "one of a lock, a multi lock, or the write side of a read-write lock",
    )


def check_dialect(name: str, own: AsyncTransactions | Transactions) -> None:
    """Raise for a database whose SQL is another."""
    if own.dialect not in ("postgresql", "sqlite"):
        raise ConfigurationError(
            name, f"fenced() of lock {name!r} knows PostgreSQL and SQLite, not {own.dialect}: check lease.fence in "
            "your own statements (docs/how-to/fences.md)"
        )  # fmt: skip


def check_idle(name: str, own: AsyncTransactions | Transactions) -> None:
    """Raise if a transaction is open."""
    if own.busy:
        raise ConfigurationError(
            name, f"fenced() of lock {name!r} begins a transaction, but the connection is in one already: commit it "
            "before, or give another connection"
        )  # fmt: skip
