"""The table of fences: what it is made of, and the statements that read and write it, in each database."""

from __future__ import annotations

from typing import NamedTuple

FENCES_TABLE = (
    "CREATE TABLE IF NOT EXISTS aiolock_fences (lock varchar(2000) PRIMARY KEY, fence bigint NOT NULL, written bigint)"
)
"""SQL for the table that `fenced()` needs, in PostgreSQL and in SQLite: put it into your migrations."""

FENCES_TABLE_OF_MYSQL = FENCES_TABLE.replace("lock varchar", "`lock` varbinary") + " ENGINE = InnoDB"
"""The same for MariaDB and MySQL."""

IDLE = "idle_in_transaction_session_timeout"
IDLE_MS = f"nullif(CAST(extract(epoch FROM CAST(current_setting('{IDLE}') AS interval)) * 1000 AS bigint), 0)"
"""Milliseconds that this session may be idle in a transaction; NULL for any time."""
LIMITED = f"set_config('{IDLE}', CAST(least(CAST({{}} AS bigint), {IDLE_MS}) AS text), true)"
TABLE = "CAST(tableoid AS bigint)"
LONGEST_MS = 2**31 - 1
"""That PostgreSQL takes as a time."""

INSERT = "INSERT INTO aiolock_fences (lock, fence, written) VALUES ({}, {}, {}) "
RAISE = f"{INSERT}ON CONFLICT (lock) DO UPDATE SET fence = excluded.fence WHERE aiolock_fences.fence <= excluded.fence"
WRITE = "UPDATE aiolock_fences SET written = {} WHERE lock = {} AND fence = {}"
FOUND = "FROM aiolock_fences WHERE lock = {} AND fence = {}"
LOOK = "SELECT written, fence FROM aiolock_fences WHERE lock = {}"


class Statements(NamedTuple):
    """What is said to one database.

    Attributes:
        enter: raises the fence, unless there is a higher one. Takes the lock's key, the fence, what to write into a new
            row, and in PostgreSQL for how many milliseconds the session may be idle.
        leave: writes which block it is, if the fence is still the one of `enter`. Takes what to write, the key and the
            fence, and in PostgreSQL the same milliseconds.
        found: reads the row with that key and fence, if the two above cannot answer; otherwise `""`.
        look: reads the row with that key, and in a database with locks of rows waits for who has it.

    A row has what is written, and in which table that is. That of `enter` goes on in PostgreSQL: the transaction, and
    for how long your own setting lets it be idle.
    """

    enter: str
    leave: str
    found: str
    look: str


def _quoted(sql: str) -> str:
    return sql.replace("(lock,", "(`lock`,").replace(" lock =", " `lock` =")


OF_POSTGRES = Statements(
    f"{RAISE} RETURNING written, {TABLE}, txid_current(), {IDLE_MS}, {LIMITED}",
    f"{WRITE} RETURNING written, {TABLE}, {LIMITED}",
    "",
    f"{LOOK} FOR UPDATE",
)
OF_SQLITE = Statements(RAISE, WRITE, f"SELECT written, 0 {FOUND}", LOOK)  # RETURNING is younger than many a SQLite
OF_MYSQL = Statements(
    _quoted(f"{INSERT}ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))"),
    _quoted(WRITE),
    _quoted(f"SELECT written, DATABASE() {FOUND} FOR UPDATE"),
    _quoted(f"{LOOK} FOR UPDATE"),
)
"""FOR UPDATE: what is there now, and not what was there when the transaction first read."""

STATEMENTS = {"postgresql": OF_POSTGRES, "sqlite": OF_SQLITE, "mysql": OF_MYSQL, "mariadb": OF_MYSQL}
"""By the dialect."""
