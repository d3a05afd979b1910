"""The keywords of a manager, for the factories that pass them on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from .clock import format_seconds
from .core.policy import check_duration, check_least, check_replica_timeout
from .core.polling import Poll
from .errors import ConfigurationError
from .events import Observer

if TYPE_CHECKING:
    from .backends.redis import Replicas

RIGHT = "LockManager('redis://host:6379/0'), or LockManager('sqlite:///locks.db')"
HINTS = {
    **dict.fromkeys(
        ("host", "port", "db", "username", "password", "ssl"),
        "write it into the URL: LockManager('redis://user:password@host:6379/0'), or rediss:// for TLS",
    ),
    **dict.fromkeys(
        ("url", "dsn", "redis", "client", "redis_client", "connection", "path"),
        f"give it first and without a name: {RIGHT}",
    ),
    "timeout": "pass acquire_timeout= for how long an acquire may wait, ttl= for how long a lock lives, or "
    "request_timeout= for how long the server may take",
}
"""What to do instead of giving a manager a keyword of another library."""


class QuorumOptions(TypedDict, total=False):
    """Keywords of `LockManager` that a quorum has, too."""

    name: str | None
    namespace: str
    ttl: float | timedelta
    margin: float | timedelta | None
    acquire_timeout: float | timedelta | None
    renew: bool
    request_timeout: float | timedelta
    keepalive: float | timedelta
    recheck: float | timedelta
    handoff_limit: int
    waiting: Poll | None
    observer: Observer | Sequence[Observer] | None


class ManagerOptions(QuorumOptions, total=False):
    """All keywords of `LockManager`."""

    liveness: float | timedelta
    min_replicas: int | None
    replica_timeout: float | timedelta


def replicas_of(
    least: int | None, timeout: float | timedelta, ttl: float, request_timeout: float, namespace: str
) -> Replicas | None:
    """Return what `min_replicas` and `replica_timeout` ask for; None if no replica must acknowledge.

    Raises:
        ConfigurationError: a number that cannot work.
    """
    seconds = check_duration("", "replica_timeout", timeout, least=0.001)
    if least is None:
        return None
    from .backends.redis import Replicas

    replicas = Replicas(check_least("min_replicas", least, 1), seconds, f"{namespace}:replicated")
    check_replica_timeout("", replicas.timeout, ttl)
    if replicas.timeout > request_timeout / 2:
        raise ConfigurationError(
            "",
            f"replica_timeout is {format_seconds(replicas.timeout)} s, but at most half of request_timeout is allowed",
        )
    return replicas
