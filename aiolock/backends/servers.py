"""What keeps locks on servers, by what a manager is created with. All but one server is imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ..events import Event
from ..scripts.keys import Keys
from .base import Backend
from .presence import Presence
from .redis import Client, ClusterClient, Handshake, RedisBackend, Replicas, is_cluster, is_sentinel

if TYPE_CHECKING:
    from .redis.seeds import Seeds
    from .redis.sentinels import Sentinels


def servers_of(
    source: str | Client | ClusterClient | Seeds | Sentinels,
    request_timeout: float,
    namespace: str,
    replicas: Replicas | None,
    pushes: bool,
    tell: Callable[[Event], None],
    presence: Presence,
) -> Backend:
    """The backend of one server, of a cluster, or of the master that Sentinels name; see `backend_of`."""
    channel = Keys(namespace).managers if pushes else ""
    if not isinstance(source, str):
        from .redis.seeds import Seeds
        from .redis.sentinels import Sentinels

        if isinstance(source, Seeds) or is_cluster(source):
            from .cluster import ClusterBackend
            from .replicated import ReplicatedBackend

            seeds = source if isinstance(source, Seeds) else Seeds(source)
            plain = ClusterBackend(
                seeds, request_timeout=request_timeout, pushes=pushes, channel=channel, tell=tell, presence=presence
            )
            if replicas is None:
                return plain
            replicas = replicas._replace(channel="")
            return ReplicatedBackend(
                plain,
                ClusterBackend(
                    seeds,
                    request_timeout=request_timeout,
                    replicas=replicas,
                    companion=plain,
                    tell=tell,
                    presence=presence,
                ),
            )
        if isinstance(source, Sentinels) or is_sentinel(source):
            from .sentinel import SentinelBackend

            sentinels = source if isinstance(source, Sentinels) else Sentinels(source)
            return SentinelBackend(
                sentinels,
                request_timeout=request_timeout,
                replicas=replicas,
                pushes=pushes,
                channel=channel,
                tell=tell,
                presence=presence,
            )
    server = cast("str | Client", source)
    handshake = Handshake(channel=channel)
    backend = RedisBackend(
        server, request_timeout=request_timeout, pushes=pushes, handshake=handshake, tell=tell, presence=presence
    )
    if replicas is None:
        return backend
    from .replicated import ReplicatedBackend

    checked = RedisBackend(server, request_timeout=request_timeout, replicas=replicas, tell=tell, presence=presence)
    return ReplicatedBackend(backend, checked, lambda: backend.run_id)
