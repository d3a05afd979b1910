"""The rows of some keys."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ..transactional.loaded import Row

FEW = 500
"""Keys that one statement names; SQLite allows 999 in its oldest versions."""


def load(link: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Row]:
    """Those that exist; in a transaction."""
    found: dict[str, Row] = {}
    for at in range(0, len(keys), FEW):
        some = keys[at : at + FEW]
        holes = ",".join("?" * len(some))
        rows = link.execute(f"SELECT key, kind, value, expires_us FROM aiolock WHERE key IN ({holes})", some)
        found.update((key, Row(kind, value, expires)) for key, kind, value, expires in rows)
    return found
