"""Which store a URL names, before anything of it is imported."""

from __future__ import annotations

_STORES = {"memory": "memory", "sqlite": "sqlite", "postgresql": "postgresql", "postgres": "postgresql"}


def store_of(source: object) -> str:
    """Return "memory", "sqlite" or "postgresql" for a URL of one; "" for all else. What stands behind a plus, as
    SQLAlchemy has it, is ignored.
    """
    if not isinstance(source, str):
        return ""
    return _STORES.get(source.partition(":")[0].partition("+")[0], "")
