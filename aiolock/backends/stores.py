"""Which store a URL names, before anything of it is imported."""

from __future__ import annotations


def store_of(source: object) -> str:
    """Return "memory", "sqlite" or "postgresql" for a URL of one, also of SQLAlchemy's `postgresql+asyncpg`; "" for all
    else.
    """
    if not isinstance(source, str):
        return ""
    if source.startswith("memory://"):
        return "memory"
    scheme = source.partition(":")[0]
    if scheme.partition("+")[0] in ("postgresql", "postgres"):
        return "postgresql"
    return scheme if scheme == "sqlite" else ""
