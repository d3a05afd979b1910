"""The keywords of a manager, for the factories that pass them on."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from .core.poll import Poll


class QuorumOptions(TypedDict, total=False):
    """Keywords of `LockManager` that a quorum has, too."""

    namespace: str
    ttl: float | timedelta
    margin: float | timedelta | None
    acquire_timeout: float | timedelta | None
    renew: bool
    request_timeout: float | timedelta
    recheck: float | timedelta
    handoff_limit: int
    waiting: Poll | None


class ManagerOptions(QuorumOptions, total=False):
    """All keywords of `LockManager`."""

    liveness: float | timedelta
    min_replicas: int | None
    replica_timeout: float | timedelta
