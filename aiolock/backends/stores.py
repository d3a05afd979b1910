"""Which store a URL names, before anything of it is imported."""

from __future__ import annotations

DATABASES = {"postgresql": "postgresql", "postgres": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
"""Schemes of URLs."""


def store_of(source: object) -> str:
    """Return "memory", "sqlite", "postgresql" or "mysql" for a URL of one, also of SQLAlchemy's `postgresql+asyncpg`;
    "" for all else.
    """
    if not isinstance(source, str):
        return ""
    if source.startswith("memory://"):
        return "memory"
    scheme = source.partition(":")[0]
    if store := DATABASES.get(scheme.partition("+")[0]):
        return store
    return scheme if scheme == "sqlite" else ""
