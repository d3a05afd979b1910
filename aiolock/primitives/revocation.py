"""Asking a holder to finish, waiting for that, and ending it if it does not."""

from __future__ import annotations

from collections.abc import Coroutine

from ..clock import pause
from ..core.runtime import Runtime
from ..scripts.lock import LockCalls
from ..scripts.outcomes import Asked

FIRST, LONGEST = 0.01, 1.0
"""Seconds until it asks for the second time, and at most between two requests."""


async def request_release(runtime: Runtime, calls: LockCalls, grace: float, force: bool) -> bool:
    """Ask whoever holds the name now; return True if that hold has ended when this returns.

    Args:
        runtime: the manager's.
        calls: requests about the name.
        grace: seconds to wait for its end.
        force: end it after that.
    """
    clock = runtime.clock
    until, interval = clock.now() + grace, FIRST
    asked = await _ask(runtime, calls)
    holding = bool(asked.owner)
    while holding and (left := until - clock.now()) > 0:
        await pause(clock, min(interval, left))
        interval = min(2 * interval, LONGEST)
        # The message may have been lost: so it is sent again.
        holding = (await _ask(runtime, calls, asked.owner)).owner == asked.owner
    if holding and force:
        await runtime.ask(calls.force_release(asked.fence), "force-releasing")
    return force or not holding


def _ask(runtime: Runtime, calls: LockCalls, owner: str = "") -> Coroutine[object, object, Asked]:
    return runtime.ask(calls.request_release(owner), "asking for the release of")
