"""Which store a source names, before anything of it is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import asyncpg
    from sqlalchemy.ext.asyncio import AsyncEngine

    Database: TypeAlias = asyncpg.Pool[Any] | AsyncEngine

OF_POSTGRES = frozenset({("asyncpg", "Pool"), ("sqlalchemy", "AsyncEngine")})
DATABASES = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
}
"""Schemes of URLs."""


def store_of(source: object) -> str:
    """Return "memory", "sqlite", "postgresql", "mysql", "etcd" or "zookeeper" for a URL of one, also of SQLAlchemy's
    `postgresql+asyncpg`; "postgresql" also for a pool of asyncpg or an engine of SQLAlchemy; "" for all else.
    """
    if not isinstance(source, str):
        classes = {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(source).__mro__}
        return "postgresql" if classes & OF_POSTGRES else ""
    if source.startswith("memory://"):
        return "memory"
    scheme = source.partition(":")[0]
    if store := DATABASES.get(scheme.partition("+")[0]):
        return store
    if scheme in ("etcds", "zookeepers"):
        return scheme[:-1]
    return scheme if scheme in ("etcd", "zookeeper") else ""
