"""Locks and the transactions of the thread that has them: what was written under a lock is to be committed under it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from sys import _getframe
from types import CodeType
from typing import Any

from ...log import Log
from ...sync import Lease, Lock, MultiLock, RWLockSide
from ..extra import needs

with needs("django"):
    from django.db import DEFAULT_DB_ALIAS, connections, transaction

logger: Log = Log("aiolock.django")
_PACKAGE = __name__.partition(".")[0] + "."
_told: set[tuple[CodeType, int]] = set()
"""The places that a WARNING has named."""


@contextmanager
def until_commit(lock: Lock | MultiLock | RWLockSide, using: str | None = None) -> Iterator[Lease]:
    """Hold a lock from the beginning of a block until the transaction around it has ended.

    Otherwise the lock is free when the block ends, others enter, and do not see what your transaction has written. With
    `ATOMIC_REQUESTS`, the transaction lasts until your view has returned. Without a transaction, and in one of Django's
    `TestCase`, it is `with lock`.

    Args:
        lock: acquired as by `with lock`.
        using: the database; None for the default one.

    Raises:
        LockLost: at the end of the block: the lease was lost. Let it roll the transaction back. If it is lost later,
            the log says so.
        AiolockError: what `with lock` raises.

    It is released after the commit, or once the transaction, or the savepoint in which the block was, is rolled back.
    Cost: what the lock costs.

    Example:
        ```python
        from aiolock.contrib.django.sync import get_locks, until_commit


        def sell(request, item_id):
            with until_commit(get_locks().lock(f"stock:{item_id}")) as lease: ...
        ```
    """
    if not _in_transaction(connections[using or DEFAULT_DB_ALIAS]):
        with lock as lease:
            yield lease
        return
    lease = lock.acquire()
    try:
        yield lease
        lease.ensure()
    finally:
        transaction.on_commit(_Kept(lease), using, robust=True)  # nothing else may refer to it


class _Kept:
    """A lease, until Django calls this after a commit, or forgets it after a rollback."""

    def __init__(self, lease: Lease) -> None:
        self._lease: Lease | None = lease
        self.__qualname__ = until_commit.__qualname__  # Django logs that, if this raises

    def __call__(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None and not lease.lost:
            lease.release()

    def __del__(self) -> None:
        if self._lease is not None:
            self._lease._give_back()


def warn(lease: Lease) -> None:
    """Warn, once for each place, if the block of a lease ends before a transaction of this thread."""
    with contextlib.suppress(Exception):  # whatever Django cannot say, the lock is released
        if lease.depth > 1 or lease._core._hold.calls.kind == "semaphore":
            return
        for connection in connections.all(initialized_only=True):
            if _in_transaction(connection):
                _warn(lease, connection.alias)


def _in_transaction(connection: Any) -> bool:
    """Whether what it writes is seen only later; a test's own transaction does not count."""
    return any(not block._from_testcase for block in connection.atomic_blocks)


def _warn(lease: Lease, database: str) -> None:
    frame = _getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    place = frame.f_code, frame.f_lineno
    if place not in _told:
        _told.add(place)
        logger.warning(
            "lock %r was released at %s:%d before the transaction of the database %r has ended, so others may enter "
            "who do not see what it wrote: use `with until_commit(lock)`, or enter the lock before the transaction",
            lease.name,
            frame.f_code.co_filename,
            frame.f_lineno,
            database,
        )
