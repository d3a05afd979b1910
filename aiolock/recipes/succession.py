"""Whether anybody had a lock between two of your leases."""

from __future__ import annotations

from typing import cast

from ..core.lease import Lease
from ..errors import ConfigurationError
from ..scripts.lock import LockCalls


async def follows(lease: Lease, fence: int) -> bool:
    """Return True if nobody had the lock between a grant with this fence and this lease.

    For a process that slept past its ttl, or was cut off: acquire again, and go on where the lost lease stood, if this
    is True. Otherwise begin anew. No fence says that by itself, as they are no consecutive numbers.

    Args:
        lease: the new one, of a lock or a fair lock.
        fence: that of the old one, also of a process that has ended.

    Returns:
        False if another had it, or if that is not known: the server forgot the name (a day after the last hold, after
        FLUSHALL), or this lease waited in the server's queue.

    Raises:
        LockLost: the new lease is lost, too.
        NotOwned: it was released.
        BackendError: Redis is unreachable or refuses.
        ConfigurationError: no lease, or one of another kind, of a quorum, or of a store without scripts.

    Cancellation: nothing changes. Cost: one round trip, read-only.

    Example:
        ```python
        async with lock as again:
            step = kept if await follows(again, lost.fence) else 0
        ```
    """
    if not isinstance(lease, Lease):
        raise ConfigurationError("", f"follows() needs the lease that acquire() returned, not {lease!r}")
    runtime, hold = lease._gate.runtime, lease._hold
    runtime.backend.abilities.need_scripts(lease.name, "leases that follow others")
    if hold.calls.kind != "lock":
        raise ConfigurationError(lease.name, f"follows() needs a lease of a lock, and {lease.name!r} is none")
    lease.ensure()
    call = cast(LockCalls, hold.calls).follows(hold.owner, hold.fence, fence)
    followed = await runtime.ask(call, "asking who had")
    lease.ensure()
    return followed
