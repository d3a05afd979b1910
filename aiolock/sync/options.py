"""The options of a thread's lock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypedDict, cast

from ..errors import ConfigurationError
from ..primitives.options import Default
from ..primitives.options import LockOptions as AsyncLockOptions
from .lease import Lease

OnLost = Callable[[Lease], object]


class LockOptions(TypedDict, total=False):
    """Keywords of every factory of locks. Wherever you pass seconds, you may pass a `timedelta`.

    They are those of `aiolock.LockOptions`, with `on_lost` in place of `cancel_on_loss`: a thread cannot be cancelled.

    Attributes:
        ttl: seconds, instead of the manager's.
        acquire_timeout: seconds an acquire may wait, or None for no limit, instead of the manager's.
        renew: instead of the manager's; False makes fixed leases, which end at their deadline.
        max_hold: the longest a hold may last, in seconds from its grant, however well it is renewed; None for no limit.
        hold_at_least: seconds from its grant for which nobody else gets in, not even this process, however early it is
            released, or if this process dies; at most the ttl. `force_release()` ends it. Not for multi locks, nor on
            etcd and ZooKeeper. Such a lease cannot be detached, or wait for a condition; a nested one counts. Source:
            ShedLock's `lockAtLeastFor`.
        priority: from 0 to 100: who waits with a higher one goes first; those with the same one, in the order in which
            they came. For each step that you are above another, you pass it if it has not waited for a minute longer
            than you: so nobody starves. Not for multi locks, nor on etcd and ZooKeeper; on a quorum it is for the
            threads of one process. It costs no request.
        metadata: text that `info()` and timeouts of others show, besides this process's host and pid.
        on_lost: called with each lease that is lost, in a thread of its own, while the block may still run: to kill a
            subprocess, or close a connection. What it raises goes to `threading.excepthook`.
    """

    ttl: float | timedelta | None
    acquire_timeout: float | timedelta | Default | None
    renew: bool | None
    max_hold: float | timedelta | None
    hold_at_least: float | timedelta | None
    priority: int
    metadata: str | None
    on_lost: OnLost | None


def split(options: LockOptions) -> tuple[AsyncLockOptions, OnLost | None]:
    """Return the options that the core knows, and what is to be called.

    Raises:
        ConfigurationError: an `on_lost` that cannot be called.
        TypeError: `cancel_on_loss`.
    """
    if "cancel_on_loss" in options:
        raise TypeError(
            "unexpected keyword argument 'cancel_on_loss': a thread cannot be cancelled; look at lease.lost, or pass "
            "on_lost="
        )
    known: dict[str, Any] = {**options, "cancel_on_loss": False}
    on_lost = known.pop("on_lost", None)
    if on_lost is not None and not callable(on_lost):
        raise ConfigurationError("", f"on_lost must be a function of the lease, not {on_lost!r}")
    return cast(AsyncLockOptions, known), on_lost
