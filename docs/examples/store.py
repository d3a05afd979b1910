"""The shop's database: stock, sales and events, in one SQLite file that all workers share."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_SCHEMA = """
CREATE TABLE IF NOT EXISTS stock (sku TEXT PRIMARY KEY, initial INTEGER, left INTEGER, fence INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS sales (sku TEXT, customer TEXT, worker TEXT, fence INTEGER);
CREATE TABLE IF NOT EXISTS events
    (at REAL, worker TEXT, what TEXT, sku TEXT, customer TEXT, fence INTEGER, detail TEXT);
"""


class Event(NamedTuple):
    """Something a worker logged; `at` is CLOCK_MONOTONIC, which all processes of a machine share."""

    at: float
    worker: str
    what: str
    sku: str
    customer: str
    fence: int | None
    detail: str


class Store:
    """One connection to the shop's database, for use from any thread.

    The statements take microseconds on a local file, which is why the handlers may call them on the event loop.

    Args:
        path: the SQLite file; created if it does not exist.
        worker: the name of this worker, for the log.
    """

    def __init__(self, path: str, worker: str = "") -> None:
        self._worker = worker
        self._busy = threading.Lock()
        self._db = sqlite3.connect(path, isolation_level=None, timeout=10.0, check_same_thread=False)
        # No scene cuts the power, and with an fsync for each of thousands of sales you would measure the disk.
        self._db.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; {_SCHEMA}")

    def add(self, sku: str, quantity: int) -> None:
        """Put `quantity` items of a new sku on sale."""
        self._db.execute("INSERT INTO stock (sku, initial, left) VALUES (?, ?, ?)", (sku, quantity, quantity))

    def left(self, sku: str) -> int:
        """Return how many are left; 0 for a sku that was never on sale."""
        row = self._db.execute("SELECT left FROM stock WHERE sku = ?", (sku,)).fetchone()
        return int(row[0]) if row else 0

    def sell(self, sku: str, left: int, customer: str, fence: int | None) -> bool:
        """Record a sale that leaves `left` items, unless a later holder of the lock wrote first.

        Each grant of the lock sells one item, so only a fence greater than the stored one may write.

        Args:
            fence: the fence of the lease under which `left` was computed; None to write unguarded.
        """
        with self._transaction() as db:
            if fence is None:
                changed = db.execute("UPDATE stock SET left = ? WHERE sku = ?", (left, sku))
            else:
                changed = db.execute(
                    "UPDATE stock SET left = ?, fence = ? WHERE sku = ? AND fence < ?", (left, fence, sku, fence)
                )
            if changed.rowcount:
                db.execute("INSERT INTO sales VALUES (?, ?, ?, ?)", (sku, customer, self._worker, fence))
        if not changed.rowcount:
            self.log("refused", sku, customer, fence)
        return bool(changed.rowcount)

    def log(self, what: str, sku: str, customer: str, fence: int | None = None, detail: str = "") -> None:
        """Log that something happened now."""
        row = (time.monotonic(), self._worker, what, sku, customer, fence, detail)
        with self._transaction() as db:
            db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def events(self, what: str, sku: str) -> list[Event]:
        """Return what happened to a sku, oldest first."""
        rows = self._db.execute("SELECT * FROM events WHERE what = ? AND sku = ? ORDER BY at", (what, sku))
        return [Event(*row) for row in rows]

    def counts(self) -> dict[str, int]:
        """Return how often each event happened in this worker."""
        counted = "SELECT trim(what || ' ' || detail), count(*) FROM events WHERE worker = ? GROUP BY what, detail"
        return dict(self._db.execute(counted, (self._worker,)).fetchall())

    def sold(self, *skus: str) -> int:
        """Return how many items of these skus were sold."""
        marks = ", ".join("?" * len(skus))
        return int(self._db.execute(f"SELECT count(*) FROM sales WHERE sku IN ({marks})", skus).fetchone()[0])

    def oversold(self, *skus: str) -> int:
        """Return how many more items were sold than were in stock."""
        return sum(
            max(0, self.sold(sku) - initial)
            for sku, initial in self._db.execute("SELECT sku, initial FROM stock").fetchall()
            if sku in skus
        )

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # A connection has one transaction at a time; a second thread waits for it to end.
        with self._busy:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
