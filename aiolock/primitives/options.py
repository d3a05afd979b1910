"""What a lock can be made with, checked and turned into its policy."""

from __future__ import annotations

from typing import Final, NoReturn, TypedDict

from ..core.policy import Policy, check_duration, check_margin, check_metadata, check_timeout, check_ttl


class Default:
    """Stands for a value that was not given: "as the lock was made with", where None means "without limit".

    Pass `Default()` on where a wrapper of yours was given no timeout.
    """

    def __repr__(self) -> str:
        return "the lock's default"


DEFAULT: Final = Default()


OURS = {
    "timeout": "ttl= is how long the lock lives, acquire_timeout= how long an acquire may wait",
    "blocking_timeout": "acquire_timeout=",
    "blocking": "lock.try_acquire()",
    "sleep": "nothing: waiters are woken by a message",
    "thread_local": "nothing: reentrancy is by task",
    "lease_time": "ttl=",
    "wait": "acquire_timeout=",
    "auto_renewal": "renew=",
    "expire": "ttl=",
}


class LockOptions(TypedDict, total=False):
    """Keywords of every factory of locks.

    Attributes:
        ttl: seconds, instead of the manager's.
        acquire_timeout: seconds an acquire may wait, or None for without limit, instead of the manager's.
        renew: instead of the manager's; False makes fixed leases, which end at their deadline.
        max_hold: seconds a hold may last at most from its grant, however well it is renewed; None for no limit.
        cancel_on_loss: False lets the guarded body run on after a loss; `lease.lost`, `lease.reason` and
            `await lease.wait_lost()` tell, and the block still ends with `LockLost`.
        metadata: text that `info()` and timeouts of others show, next to this process's host and pid.
    """

    ttl: float | None
    acquire_timeout: float | Default | None
    renew: bool | None
    max_hold: float | None
    cancel_on_loss: bool
    metadata: str | None


def policy_of(name: str, default: Policy, margin: float | None, options: LockOptions) -> Policy:
    """The policy of a lock.

    Args:
        name: the lock's, for errors.
        default: the manager's.
        margin: the manager's, None for a share of the ttl.
        options: what the lock is made with.

    Raises:
        ConfigurationError: a value that cannot work.
        TypeError: a keyword of another library; names ours.
    """
    foreign = set(options) - LockOptions.__annotations__.keys()
    if foreign:
        _refuse_foreign(min(foreign))
    ttl, renew, max_hold = options.get("ttl"), options.get("renew"), options.get("max_hold")
    limit = options.get("acquire_timeout", DEFAULT)
    lasting = default.ttl if ttl is None else check_ttl(name, ttl)
    return Policy(
        ttl=lasting,
        margin=check_margin(name, margin, lasting),
        acquire_timeout=default.acquire_timeout
        if isinstance(limit, Default)
        else check_timeout(name, "acquire_timeout", limit),
        renew=default.renew if renew is None else bool(renew),
        max_hold=None if max_hold is None else check_duration(name, "max_hold", max_hold, least=0.001),
        cancel_on_loss=bool(options.get("cancel_on_loss", True)),
        metadata=check_metadata(name, options.get("metadata")),
    )


def _refuse_foreign(keyword: str) -> NoReturn:
    if keyword in OURS:
        raise TypeError(f"lock() has no {keyword!r}; here it is {OURS[keyword]}")
    raise TypeError(f"lock() got an unexpected keyword argument {keyword!r}")
