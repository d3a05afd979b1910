"""The rows of some keys: read, and written in one statement if they are still what was read."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
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
_SAME = (
    "WHERE NOT EXISTS (SELECT 1 FROM (VALUES {}) AS was LEFT JOIN aiolock AS found ON found.key = was.column1"
    " WHERE found.value IS NOT was.column3 OR found.expires_us IS NOT was.column4 OR found.kind IS NOT was.column2)"
)


def load(link: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Row]:
    """Those that are kept, also if they have expired. Outside of a transaction, up to `FEW` are as of one moment."""
    found: dict[str, Row] = {}
    for at in range(0, len(keys), FEW):
        some = keys[at : at + FEW]
        query = f"SELECT key, kind, value, expires_us FROM aiolock WHERE key IN ({','.join('?' * len(some))})"
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
    written = ",".join([_ROW] * len(changes))
    read = ",".join([_ROW] * len(keys))
    words = chain(
        *((key, *(row or GONE)) for key, row in changes.items()),
        *((key, *before.get(key, (None, None, None))) for key in keys),
    )
    return (
        link.execute(f"REPLACE INTO aiolock SELECT * FROM (VALUES {written}) {_SAME.format(read)}", [*words]).rowcount
        > 0
    )


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
