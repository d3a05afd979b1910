"""How one lock is held: durations and what happens on loss, validated."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field
from datetime import timedelta

from ..clock import format_seconds, in_seconds
from ..errors import ConfigurationError
from ..log import Log

logger: Log = Log("aiolock.manager")

MAX_EARLY = 1.0
"""Seconds by which something may be renewed early at most, if others ask the server anyway."""
MIN_TTL = 0.1
MAX_TTL = 30 * 24 * 3600.0
MAX_METADATA_BYTES = 4096
MAX_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class Policy:
    """Durations in seconds.

    Attributes:
        ttl: how long the server keeps the lock without renewal.
        margin: how long before the server's expiry the lease counts as lost here: the body's clean-up budget.
        acquire_timeout: default for how long an acquire may wait; None waits without limit.
        renew: False for a fixed lease, which ends at its deadline.
        max_hold: the longest a hold may last, however well it is renewed; None for no limit.
        cancel_on_loss: False lets the guarded body run on after a loss.
        hold_at_least: the name stays taken for so long from its grant, however early it is released.
        priority: how far ahead of others it waits, in steps of a minute.
        metadata: what `info()` and `AcquireTimeout` say of the holder, besides its host and pid.
        stays: why it may neither move nor be given up for a while; empty if it may.
        ttl_ms: the ttl as the wire has it.
        early: how long before its time it may be renewed together with others: a tenth of the time between two
            renewals, and no longer than `MAX_EARLY`.
    """

    ttl: float
    margin: float
    acquire_timeout: float | None
    renew: bool
    max_hold: float | None
    cancel_on_loss: bool
    metadata: str | None
    stays: str = ""
    hold_at_least: float = 0.0
    priority: int = 0
    ttl_ms: int = field(init=False)
    early: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ttl_ms", milliseconds(self.ttl))
        object.__setattr__(self, "early", min(MAX_EARLY, self.ttl / 30))


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, as the wire has them."""
    return round(seconds * 1000)


def check_duration(name: str, option: str, value: object, *, least: float = 0.0) -> float:
    """Return `value`, a number or a `timedelta`, as seconds.

    Raises:
        ConfigurationError: not a finite number, or less than `least`.
    """
    if isinstance(value, timedelta):
        value = in_seconds(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ConfigurationError(name, f"{_of(name, option)} must be a number of seconds or a timedelta, not {value!r}")
    try:
        seconds = float(value)
    except OverflowError:  # a whole number beyond any float
        seconds = math.inf
    if not math.isfinite(seconds) or seconds < least:
        raise ConfigurationError(name, f"{_of(name, option)} is {seconds} s; it must be finite and at least {least} s")
    return seconds


def check_timeout(name: str, option: str, value: object) -> float | None:
    """Return `value` as seconds to wait at most; None for no limit."""
    return None if value is None else check_duration(name, option, value)


def check_ttl(name: str, value: object) -> float:
    """Return `value` as a ttl in seconds: 0.1 s to 30 days."""
    ttl = check_duration(name, "ttl", value, least=MIN_TTL)
    if ttl > MAX_TTL:
        raise ConfigurationError(name, f"{_of(name, 'ttl')} is {ttl} s; at most {MAX_TTL:.0f} s (30 days) are allowed")
    return ttl


def check_flag(name: str, option: str, value: object) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool):
        raise ConfigurationError(name, f"{_of(name, option)} must be True or False, not {value!r}")
    return value


def check_least(option: str, value: object, least: int) -> int:
    """Return `value` if it is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError("", f"{option} must be a whole number from {least}, not {value!r}")
    return value


def check_part(name: str, n: object, has: int) -> int:
    """Return `n` if a lease of so many permits can give it back; of 0 it has no parts."""
    if not has:
        raise ConfigurationError(name, f"only a semaphore's lease has parts: release lock {name!r} without a number")
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= has:
        raise ConfigurationError(
            name,
            f"this lease of semaphore {name!r} has {has} permit{'s' * (has > 1)}: release 1 to {has}, not {n!r}",
        )
    return n


def first_slot(name: str, slots: tuple[int, ...]) -> int:
    """Return the first of a lease's slots.

    Raises:
        ConfigurationError: it has none.
    """
    if not slots:
        raise ConfigurationError(name, f"this lease of {name!r} has no slot: that needs semaphore(…, slots=True)")
    return slots[0]


def check_replica_timeout(name: str, timeout: float, ttl: float) -> None:
    """Raise unless a renewal that was not acknowledged can be repeated before the deadline."""
    if timeout > ttl / 10:
        raise ConfigurationError(
            name,
            f"replica_timeout is {format_seconds(timeout)} s, but may be a tenth of {_of(name, 'ttl')} of "
            f"{format_seconds(ttl)} s at most, so that a renewal that was not acknowledged can be repeated: lower it, "
            "or raise the ttl",
        )


class ShortTtl:
    """Warns once of a ttl so short that a failover can let another holder in before this one hears of it.

    The last renewal that reached the new master is up to a third of the ttl older than the promotion.

    Args:
        notice: seconds after a promotion within which a holder hears of it; 0.0 for never a warning.
    """

    def __init__(self, notice: float) -> None:
        self._notice = notice

    def check(self, policy: Policy) -> None:
        """Warn if the locks of this policy are renewed too late for that."""
        if policy.renew and policy.ttl * 2 / 3 - policy.margin < self._notice:
            logger.warning(
                "with a ttl of %s s and without min_replicas, a failover can make two holders of a lock: take at least "
                "%.1f s (docs/how-to/topologies.md)",
                format_seconds(policy.ttl),
                max(1.5 * (self._notice + policy.margin), self._notice / (2 / 3 - 1 / 10)),  # the margin grows with it
            )
            self._notice = 0.0


def check_hold_at_least(name: str, value: object, ttl: float) -> float:
    """Return the seconds for which the name stays taken: none by default, and the ttl at most."""
    if value is None:
        return 0.0
    seconds = check_duration(name, "hold_at_least", value)
    if seconds > ttl:
        raise ConfigurationError(
            name,
            f"{_of(name, 'hold_at_least')} is {format_seconds(seconds)} s, but may be the ttl of {format_seconds(ttl)} "
            "s at most, so that it also holds if the process dies: raise the ttl",
        )
    return seconds


def check_priority(name: str, value: object) -> int:
    """Return `value` if it is a whole number from 0 to 100."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PRIORITY:
        raise ConfigurationError(
            name, f"{_of(name, 'priority')} must be a whole number from 0 to {MAX_PRIORITY}, not {value!r}"
        )
    return value


def check_margin(name: str, value: object, ttl: float) -> float:
    """Return the margin in seconds: by default a tenth of the ttl, within 0.05 s and 3 s."""
    if value is None:
        return min(max(ttl / 10, 0.05), 3.0)
    margin = check_duration(name, "margin", value)
    if margin >= ttl:
        raise ConfigurationError(
            name, f"{_of(name, 'margin')} is {margin} s, but must be less than the ttl of {ttl} s it is taken from"
        )
    return margin


def check_metadata(name: str, value: object) -> str | None:
    """Return `value` if it can be stored with a lock: text of at most 4 KiB of UTF-8."""
    if value is None:
        return None
    try:
        size = len(value.encode()) if isinstance(value, str) else math.inf
    except UnicodeEncodeError:  # a lone surrogate
        size = math.inf
    if not isinstance(value, str) or size > MAX_METADATA_BYTES:
        raise ConfigurationError(
            name, f"{_of(name, 'metadata')} must be text of at most {MAX_METADATA_BYTES} bytes of UTF-8"
        )
    return value


def _of(name: str, option: str) -> str:
    return f"{option} of lock {name!r}" if name else f"the manager's {option}"
