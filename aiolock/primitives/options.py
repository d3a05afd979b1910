"""The options of a lock, checked and turned into its policy."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, TypedDict

from ..core.policy import (
    Policy,
    check_duration,
    check_flag,
    check_hold_at_least,
    check_margin,
    check_metadata,
    check_priority,
    check_timeout,
    check_ttl,
)
from ..usage import unknown_keyword


class Default:
    """A value that you did not give: "as the lock was made", where None means "no limit".

    Pass on `Default()` if your wrapper got no timeout.
    """

    def __repr__(self) -> str:
        return "the lock's default"


DEFAULT: Final = Default()


HINTS = {
    "timeout": "pass ttl= for how long the lock lives, or acquire_timeout= for how long an acquire may wait",
    "blocking_timeout": "pass acquire_timeout=",
    "blocking": "call lock.try_acquire(), which never waits",
    "sleep": "leave it out, since a message wakes the next waiter",
    "thread_local": "leave it out, since a lock is reentrant by task",
    "lease_time": "pass ttl=",
    "wait": "pass acquire_timeout=",
    "auto_renewal": "pass renew=",
    "expire": "pass ttl=",
}
"""What to do instead of giving a factory a keyword of another library."""
ACQUIRE_HINTS = HINTS | {
    "timeout": "call acquire(timeout=...), since try_acquire() never waits",
    "acquire_timeout": "pass timeout=",
    "blocking": "call try_acquire(), which never waits, or pass timeout=",
    "blocking_timeout": "pass timeout=",
    "wait": "pass timeout=",
    "token": "leave it out, since each acquisition has an id of its own",
    **dict.fromkeys(("ttl", "lease_time", "expire"), "pass ttl= where the lock is made: locks.lock(name, ttl=...)"),
    **{name: f"pass {name}= where the lock is made: locks.lock(name, {name}=...)" for name in ("priority", "metadata")},
    **dict.fromkeys(("renew", "auto_renewal"), "pass renew= where the lock is made: locks.lock(name, renew=...)"),
}
"""What to do instead of giving `acquire()` or `try_acquire()` such a keyword."""


LOCK = "locks.lock('a', ttl=30), or locks.lock('a', acquire_timeout=5)"
SEMAPHORE = "locks.semaphore('a', 5), where 5 may hold it at once"
LATCH_TTL = 24 * 3600.0
"""Seconds an unused latch is kept: longer than any pause between two reports, because a forgotten one never opens."""
KEPT = "its hold_at_least= counts from its grant"
LATCH = "locks.latch('a', 3), which 3 counts open"


class LockOptions(TypedDict, total=False):
    """Keywords of every factory of locks. Wherever you pass seconds, you may pass a `timedelta`.

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
            than you: so nobody starves. Not for multi locks, nor on etcd and ZooKeeper; on a quorum it is for the tasks
            of one process. It costs no request.
        cancel_on_loss: False lets the guarded body run on after a loss. Look at `lease.lost` and `lease.reason`, or
            await `lease.wait_lost()`; the block still ends with `LockLost`.
        metadata: text that `info()` and timeouts of others show, besides this process's host and pid.
    """

    ttl: float | timedelta | None
    acquire_timeout: float | timedelta | Default | None
    renew: bool | None
    max_hold: float | timedelta | None
    hold_at_least: float | timedelta | None
    priority: int
    cancel_on_loss: bool
    metadata: str | None


def policy_of(name: str, default: Policy, margin: float | timedelta | None, options: LockOptions) -> Policy:
    """Return the policy of a lock.

    Args:
        name: the lock's, for errors.
        default: the manager's.
        margin: the manager's, None for a share of the ttl.
        options: what the lock is made with.

    Raises:
        ConfigurationError: a value that cannot work.
        TypeError: an unknown keyword; for one of another library the message says what to do instead.
    """
    foreign = set(options) - LockOptions.__annotations__.keys()
    if foreign:
        raise TypeError(unknown_keyword(min(foreign), HINTS, [*LockOptions.__annotations__]))
    ttl, renew, max_hold = options.get("ttl"), options.get("renew"), options.get("max_hold")
    limit = options.get("acquire_timeout", DEFAULT)
    lasting = default.ttl if ttl is None else check_ttl(name, ttl)
    least = check_hold_at_least(name, options.get("hold_at_least"), lasting)
    return Policy(
        ttl=lasting,
        margin=check_margin(name, margin, lasting),
        acquire_timeout=default.acquire_timeout
        if isinstance(limit, Default)
        else check_timeout(name, "acquire_timeout", limit),
        renew=default.renew if renew is None else check_flag(name, "renew", renew),
        max_hold=None if max_hold is None else check_duration(name, "max_hold", max_hold, least=0.001),
        cancel_on_loss=check_flag(name, "cancel_on_loss", options.get("cancel_on_loss", True)),
        metadata=check_metadata(name, options.get("metadata")),
        stays=KEPT if least else "",
        hold_at_least=least,
        priority=check_priority(name, options.get("priority", 0)),
    )
