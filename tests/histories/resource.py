"""What the locks of a round protect: numbers in a database that refuses stale fences."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

_TABLES = """
CREATE TABLE IF NOT EXISTS numbers (name TEXT PRIMARY KEY, fence INTEGER NOT NULL, total INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS tickets (id TEXT PRIMARY KEY, ticket TEXT NOT NULL, name TEXT NOT NULL, added INTEGER);
"""
_BEGIN = """
INSERT INTO numbers VALUES (?, ?, 0)
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence WHERE fence <= excluded.fence RETURNING total
"""
_TAKE = """
DELETE FROM tickets WHERE id = (SELECT id FROM tickets WHERE name = ? ORDER BY added, id LIMIT 1) RETURNING id, ticket
"""


class Resource:
    """One number a name, and the tickets that are on their way.

    A holder shows its fence when it reads and when it writes. So a stale one can neither write after a newer one has
    read, nor read what a newer one is about to change: whoever overlaps, no accepted increment is lost.

    Args:
        path: the file. A process that is killed leaves it whole.
    """

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30.0)
        self._db.execute("PRAGMA synchronous = OFF")

    def create(self) -> None:
        """Make the tables, before anybody else opens the file."""
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(_TABLES)

    def begin(self, name: str, fence: int) -> int | None:
        """Show a fence and read the number; None if a higher fence was seen."""
        rows = self._db.execute(_BEGIN, (name, fence)).fetchall()
        return rows[0][0] if rows else None

    def write(self, name: str, fence: int, total: int) -> bool:
        """Write the number; False if it is refused, because another fence was seen since it was read."""
        done = self._db.execute("UPDATE numbers SET total = ? WHERE name = ? AND fence = ?", (total, name, fence))
        return done.rowcount == 1

    def totals(self) -> dict[str, int]:
        """Every number, by name."""
        return dict(self._db.execute("SELECT name, total FROM numbers").fetchall())

    def send(self, name: str, number: str, ticket: str) -> None:
        """Leave a ticket of a lock for any process."""
        self._db.execute("INSERT INTO tickets SELECT ?, ?, ?, count(*) FROM tickets", (number, ticket, name))

    def receive(self, name: str) -> tuple[str, str] | None:
        """Take the oldest ticket of a lock: its number and its text; None if there is none."""
        rows = self._db.execute(_TAKE, (name,)).fetchall()
        return rows[0] if rows else None

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nobody is in the middle of a write: a process that is stopped in one would hold up all others."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        self._db.close()
