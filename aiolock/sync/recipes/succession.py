"""Whether anybody had a lock between two leases of threads."""

from __future__ import annotations

from ...errors import ConfigurationError
from ...recipes.succession import follows as core
from ..lease import Lease


def follows(lease: Lease, fence: int) -> bool:
    """Return True if nobody had the lock between a grant with this fence and this lease.

    As `aiolock.recipes.follows`.

    Args:
        lease: the new one, of a lock or a fair lock.
        fence: that of the old one.

    Returns:
        False if another had it, or if that is not known.

    Raises:
        LockLost: the new lease is lost, too.
        NotOwned: it was released.
        BackendError: Redis is unreachable or refuses.
        ConfigurationError: no lease, or one of another kind, of a quorum, or of a store without scripts.

    Cost: one round trip, read-only.
    """
    if not isinstance(lease, Lease):
        raise ConfigurationError("", f"follows() needs the lease that acquire() returned, not {lease!r}")
    return lease._portal.call(lease.name, lambda: core(lease._core, fence))
