"""A lease that was given up for a while continues, under a new fence."""

from __future__ import annotations

from .acquisition import obtain
from .gate import Gate
from .guard import Guard
from .hold import Watcher
from .lease import Lease


async def reacquire(lease: Lease, watchers: tuple[Watcher, ...]) -> None:
    """Acquire again what `lease` had, however long that takes; it continues with a new hold, as does its block.

    Args:
        lease: the running task's, released, the only one of its hold.
        watchers: who watched it, and goes on with that.

    Raises:
        BackendError, NotAcquired: as an acquire. The lease stays released.

    Cancellation: the lease stays released.
    """
    home, before = lease._gate, lease._result
    gate = Gate.of(home.runtime, home.calls, home.contention, home)  # another task may have a newer one by now
    fresh = await obtain(gate, lease._calls, lease._hold.policy, None)
    gate.runtime.leases.remove(fresh)
    fresh._result = before  # it was only needed to get here
    lease._gate, lease._hold, lease._result = gate, fresh._hold, None
    gate.runtime.leases.add(lease)
    guard = lease._guard
    if isinstance(guard, Guard):
        guard.resume()
    lease._hold.take_over(watchers)
