"""What you can create a manager with: a URL, a client, or a backend."""

from __future__ import annotations

from ..errors import ConfigurationError
from .base import Backend
from .memory import MemoryBackend, named_store
from .redis import Client, RedisBackend, Replicas
from .replicated import ReplicatedBackend


def backend_of(
    source: str | Client | Backend, request_timeout: float, replicas: Replicas | None = None, pushes: bool = True
) -> Backend:
    """The backend of what a manager is made with.

    Args:
        source: a URL, a client, or a backend.
        request_timeout: seconds one answer of a server may take.
        replicas: the replicas that must acknowledge a grant; None for none.
        pushes: False if there will be no subscription.

    Raises:
        ConfigurationError: a source that cannot work, or has no replicas.
    """
    in_memory = isinstance(source, str) and source.startswith("memory://")
    if replicas is not None and (in_memory or isinstance(source, Backend)):
        raise ConfigurationError("", "min_replicas needs the URL of a server: this backend has no replicas")
    if isinstance(source, str) and in_memory:
        return MemoryBackend(named_store(source.removeprefix("memory://")))
    if isinstance(source, Backend):
        return source
    backend = RedisBackend(source, request_timeout=request_timeout, pushes=pushes)
    if replicas is None:
        return backend
    return ReplicatedBackend(backend, RedisBackend(source, request_timeout=request_timeout, replicas=replicas))
