"""A client that blocks: its settings, for a connection on an event loop."""

from __future__ import annotations

from typing import Protocol, TypeVar

from .clients import settings_of

S = TypeVar("S")

_KINDS = {
    f"{package}.connection.{kind}": kind
    for package in ("redis", "valkey")
    for kind in ("Connection", "SSLConnection", "UnixDomainSocketConnection")
}


class BlockingClient(Protocol):
    """A `redis.Redis` or `valkey.Valkey` of one server."""

    @property
    def connection_pool(self) -> object:
        """It has settings."""

    def close(self) -> None:
        """It blocks."""


def source_of(source: S) -> S:
    """Return an asyncio client with the settings of a blocking one; anything else as it is."""
    pool = getattr(source, "connection_pool", None)
    kind = getattr(pool, "connection_class", None)
    name = _KINDS.get(f"{kind.__module__}.{kind.__qualname__}") if isinstance(kind, type) else None
    if pool is None or name is None or hasattr(source, "execute"):
        return source
    import redis.asyncio

    made = redis.asyncio.ConnectionPool(
        connection_class=getattr(redis.asyncio, name), **settings_of(pool.connection_kwargs)
    )
    client: S = redis.asyncio.Redis(connection_pool=made)  # type: ignore[assignment]
    return client
