"""An acquire whose errors say that nothing was run."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, overload

from ..core.lease import Lease
from ..errors import AcquireTimeout, ConfigurationError
from ..primitives.lock import Lock
from ..primitives.options import Default
from .not_run import Busy, before_it_runs


def check_busy(busy: str, timeout: object, *known: str) -> None:
    """Raise a `ConfigurationError` unless `busy` is one of these, and there is a timeout only for one that waits."""
    if busy not in known:
        *others, last = (f'"{one}"' for one in known)
        raise ConfigurationError("", f"busy must be {', '.join(others)} or {last}, not {busy!r}")
    if busy not in ("wait", "join") and not isinstance(timeout, Default):
        raise ConfigurationError("", f'busy="{busy}" never waits: leave timeout out, or pass busy="wait"')


@overload
async def take(lock: Lock, busy: Literal["wait", "raise"], timeout: float | timedelta | Default | None) -> Lease: ...


@overload
async def take(
    lock: Lock, busy: Literal["wait", "skip", "raise"], timeout: float | timedelta | Default | None
) -> Lease | None: ...


async def take(
    lock: Lock, busy: Literal["wait", "skip", "raise"], timeout: float | timedelta | Default | None
) -> Lease | None:
    """Acquire.

    Args:
        lock: what.
        busy: if another has it: wait, return None at once, or raise at once.
        timeout: how many seconds to wait, if at all.

    Raises:
        Busy: another has it.
        Unavailable: Redis is unreachable or refuses.
    """
    try:
        with before_it_runs():
            if busy == "wait":
                return await lock.acquire(timeout=timeout)
            attempt = lock.try_acquire()
            lease = await attempt
    except AcquireTimeout as error:
        raise Busy(error.name, error.message, error.holder) from error.__cause__
    if lease is None and busy == "raise":
        holder = attempt.holder
        raise Busy(
            lock.name,
            f"lock {lock.name!r} is held by {holder or 'another'}: the function was not run; call it again later",
            holder,
        )
    return lease
