"""The rows of some keys: read, and written in one statement if they are still what was read."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from random import randrange

from ..transactional.loaded import Row

FEW = 500
"""Keys that one statement names; SQLite allows 999 in its oldest versions."""
GUARDED = 50
"""Keys of which one statement can see if they have changed, and write as many."""
GONE = Row("string", "", 0)
"""What is written of a key that there is no more: one statement cannot write some rows, and delete others."""
_ROW = "(?,?,?,?)"


def load(link: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Row]:
    """Those that are kept, even if they have expired. Outside of a transaction, up to `FEW` are as of one moment."""
    found: dict[str, Row] = {}
    for at in range(0, len(keys), FEW):
        some = keys[at : at + FEW]
        query = f"SELECT key, kind, value, expires_us FROM aiolock WHERE key IN ({_holes(len(some))})"
        found.update((key, Row(kind, value, expires)) for key, kind, value, expires in link.execute(query, some))
    return found


def save(link: sqlite3.Connection, changes: Mapping[str, Row | None]) -> None:
    """Write rows; in a transaction."""
    link.executemany(f"REPLACE INTO aiolock VALUES{_ROW}", [(key, *(row or GONE)) for key, row in changes.items()])


def save_if(
    link: sqlite3.Connection, changes: Mapping[str, Row | None], keys: Sequence[str], before: Mapping[str, Row]
) -> bool:
    """Write rows if all these keys are still as they were; outside of a transaction.

    Returns:
        Whether they were written.
    """
    there = [(key, *before[key]) for key in keys if key in before]
    words = chain(*((key, *(row or GONE)) for key, row in changes.items()), keys, (len(there),), *there)
    return link.execute(_conditional(len(changes), len(keys), len(there)), [*words]).rowcount > 0


@cache
def _conditional(changes: int, keys: int, there: int) -> str:
    """SQL that writes some rows if as many of the keys exist, with these values."""
    same = "EXISTS (SELECT 1 FROM aiolock WHERE key = ? AND kind = ? AND value = ? AND expires_us IS ?)"
    conditions = [f"(SELECT count(*) FROM aiolock WHERE key IN ({_holes(keys)})) = ?", *[same] * there]
    rows = ",".join([_ROW] * changes)
    return f"REPLACE INTO aiolock SELECT * FROM (VALUES {rows}) WHERE {' AND '.join(conditions)}"


@cache
def _holes(count: int) -> str:
    return ",".join("?" * count)


def anywhere(link: sqlite3.Connection) -> str:
    """A key by chance, or "": after it, a process begins to sweep. So those that sweep once come by all rows."""
    (rows,) = link.execute("SELECT count(*) FROM aiolock").fetchone()
    (key,) = link.execute(
        "SELECT key FROM aiolock ORDER BY key LIMIT 1 OFFSET ?", (randrange(rows + 1),)
    ).fetchone() or ("",)
    return str(key)


def sweep(link: sqlite3.Connection, after: str, rows: int, now_us: int) -> str:
    """Delete those that have expired among the rows after a key; in a transaction.

    Returns:
        The key after which to go on next time.
    """
    query = "SELECT key FROM aiolock WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?"
    (last,) = link.execute(query, (after, rows)).fetchone() or ("",)
    delete = "DELETE FROM aiolock WHERE key > ? AND (key <= ? OR ? = '') AND expires_us < ?"
    link.execute(delete, (after, last, last, now_us))
    return str(last)
