"""Transactions that only the holder of a lock can commit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from types import TracebackType
from typing import TypeVar

from ..core.lease import Lease
from ..errors import ConfigurationError
from ..primitives.kinds import FULL
from .fenced_transaction import FENCES_TABLE as FENCES_TABLE
from .fenced_transaction import FencedTransaction
from .transactions import finished, transactions

C = TypeVar("C")


def fenced(lease: Lease, connection: C) -> AbstractAsyncContextManager[C]:
    """Return a transaction on your own connection that is committed only while no later holder has begun one.

    It writes the lease's fence into the table `aiolock_fences`, and commits that. From then on, no earlier holder can
    commit, so what your block reads stays so. Then it begins a transaction, runs your block, writes the fence once more
    as the last statement, and commits. If a higher fence is there, a later holder has begun: nothing of the block
    stays. So a holder that was frozen, or lost its lock without noticing, cannot overwrite what a later one has written
    or rely on what a later one changes. The lock may be kept anywhere: on Redis, or in a file.

    In PostgreSQL the transaction is also ended if it stays idle for longer than the lease lasted when it began: a
    frozen holder does not keep others waiting for its rows.

    The table is yours to create; docs/how-to/protect-data.md has the statement, and so has the error if it is missing.

    Args:
        lease: of a `lock()`, `fair_lock()` or `multi_lock()`, or of the `write` side of an `rw_lock()`.
        connection: without an open transaction: an asyncpg connection, a psycopg `AsyncConnection`, an `AsyncSession`
            or `AsyncConnection` of SQLAlchemy, or an aiosqlite connection; the database is PostgreSQL, SQLite or, with
            SQLAlchemy, MariaDB or MySQL. For others see `aiolock.sync.fenced`.

    Returns:
        A context manager that you enter once; it gives `connection`.

    Raises:
        LockLost: on entering or leaving: the lease is lost, or a later holder has begun. Nothing of the block stays.
        NotOwned: the lease was released.
        ConfigurationError: a lease that has nothing to itself, or a connection that cannot have a transaction of its
            own: another library or database, an open transaction, AUTOCOMMIT, a pipeline of psycopg.
        TransactionError: the database was locked, or has ended the transaction, as it was idle for too long; or your
            block has committed or rolled back itself. The message says which, and what stays.

        Whatever else your library raises goes on. If COMMIT gets no answer, it may have happened, as always.

    Cancellation: the transaction is rolled back, even after a loss: see `lease.shielded()`. Cost: a transaction of one
    statement before your block, and a savepoint and one statement in its transaction; eight round trips more in
    PostgreSQL, none on the server of the lock.

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
    return lease.shielded(_block(lease, connection, awaited=True))


def _block(lease: Lease, connection: C, awaited: bool) -> AbstractAsyncContextManager[C]:
    own = FencedTransaction(lease, keys_of(lease), transactions(lease.name, connection, awaited))
    return _giving(own, connection)


@asynccontextmanager
async def _giving(own: FencedTransaction, connection: C) -> AsyncIterator[C]:
    async with own.run():
        yield connection


class FencedBlock(AbstractContextManager[C]):
    """The same for a connection that is used without `await`: see `aiolock.sync.fenced`. Nothing in it ever waits on a
    loop, so it needs none.
    """

    def __init__(self, lease: Lease, connection: C) -> None:
        self._block = _block(lease, connection, awaited=False)

    def __enter__(self) -> C:
        return finished(self._block.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return finished(self._block.__aexit__(kind, error, trace))


def keys_of(lease: Lease) -> list[str]:
    """What the table calls the names of a lease, in the order in which they are written.

    Raises:
        ConfigurationError: others may be inside, too.
    """
    calls, keys = lease._calls, lease._gate.runtime.keys
    if calls.kind in ("lock", "multi"):
        return sorted(keys.of("lock", name).lock for name in calls.names)
    if calls.kind == "rw" and calls.weight >= FULL:
        return [keys.of("rw", calls.name).lock]
    raise ConfigurationError(
        lease.name,
        f"this lease of {lease.name!r} shares the lock, so its fence does not say who is late: fenced() needs "
        "one of a lock, a multi lock, or the write side of a read-write lock",
    )
