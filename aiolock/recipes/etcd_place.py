"""What a lease is in etcd, for transactions there that only its holder can commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..core.lease import Lease
from ..errors import ConfigurationError
from ..record import Record

if TYPE_CHECKING:
    from ..backends.coordinator.calls import CoordinatorCalls


class EtcdPlace(Record):
    """The key of a lease, which is gone as soon as another can get in.

    Attributes:
        key: its key.
        revision: its create-revision, which is the lease's fence.
    """

    key: str
    revision: int


def etcd_place(lease: Lease) -> EtcdPlace:
    """Return the key of a lease that is held in etcd. Compare its create-revision in your own transaction there: a
    holder that is late commits nothing.

    Args:
        lease: of a lock, a fair lock, a semaphore, or the `write` side of a read-write lock.

    Raises:
        LockLost: it is lost.
        NotOwned: it was released.
        ConfigurationError: no lease, one that is not held in etcd, or a reader's, whose fence is that of a writer.

    Cost: no I/O.

    Example:
        ```python
        async with locks.lock("order:42") as lease:
            place = etcd_place(lease)
            # In Go's words: If(Compare(CreateRevision(place.key), "=", place.revision)).Then(OpPut("paid", "42"))
        ```

    Source: `IsOwner()` of etcd's own `concurrency.Mutex`.
    """
    if not isinstance(lease, Lease):
        raise ConfigurationError("", f"etcd_place() needs the lease that acquire() returned, not {lease!r}")
    lease.ensure()
    hold = lease._hold
    if lease._gate.runtime.backend.abilities.store != "etcd":
        raise ConfigurationError(
            lease.name, f"etcd_place() needs a lease in etcd, and {lease.name!r} is kept elsewhere"
        )
    calls = cast("CoordinatorCalls", hold.calls)
    if calls.shares:
        raise ConfigurationError(
            lease.name,
            f"this lease of {lease.name!r} is a reader's, whose fence is the last writer's: use the write side",
        )
    return EtcdPlace(calls.key_of(hold.owner), hold.fence)
