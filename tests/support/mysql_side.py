"""Scripts and looks at locks in a database of MariaDB or MySQL, behind the managers' backs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pymysql

from aiolock.backends.mysql.reader import NOW
from aiolock.backends.mysql.session import SCHEMA
from aiolock.backends.transactional.channels import name_of
from aiolock.backends.transactional.loaded import Loaded, Row
from aiolock.backends.transactional.served import kept, shown

from . import mysql
from .database import ServedSide
from .filed import Live

LIVE = "IS_USED_LOCK(CONCAT('aiolock ear ', ear))"


def equip(link: pymysql.Connection[Any], changed: Callable[[str], str] = str) -> None:
    """Run the schema, as its owner does; or another one."""
    _, _, statements = changed(SCHEMA.read_text(encoding="utf-8")).partition("DELIMITER $$\n")
    for statement in statements.split("$$\n")[:-1]:
        link.cursor().execute(statement)


class MySQLSide(ServedSide):
    """A database of a server.

    Args:
        port: the server.
        name: the database.
        empty: delete its locks.
    """

    def __init__(self, port: int, name: str, empty: bool = True) -> None:
        super().__init__()
        self._link = mysql.connect(port, database=name)
        self._ear = mysql.connect(port, database=name)
        self._number = secrets.token_hex(16)
        if not self._rows("SHOW TABLES LIKE 'aiolock_rows'"):
            equip(self._link)
        self._rows("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        if empty:
            self._rows("DELETE FROM aiolock_rows")
            self._rows("UPDATE aiolock_gates SET tag = 0, manager = 0, until_us = 0 WHERE manager <> 0")
        self.store = Live(self)

    @contextmanager
    def opened(self) -> Iterator[Loaded]:
        """All rows, in a transaction."""
        self._rows("BEGIN")
        self._rows("SELECT COUNT(*) FROM aiolock_gates FOR UPDATE")  # so no exchange runs
        found = self._rows("SELECT CONVERT(k USING utf8mb4), kind, value, expires_us FROM aiolock_rows")
        rows = {shown(key): Row.of_json(kind, text, expires) for key, kind, text, expires in found}
        store = Loaded(self.now_us(), rows, self.listeners)
        try:
            yield store
        finally:
            for key, row in store.changes().items():
                self._rows("DELETE FROM aiolock_rows WHERE k = %s", kept(key).encode())
                if row is not None:
                    values = kept(key).encode(), row.kind, row.as_json(), row.expires, secrets.randbits(62)
                    self._rows("INSERT INTO aiolock_rows VALUES(%s, %s, %s, %s, %s)", *values)
            told: set[int] = set()
            for channel, payload in store.published:
                name, message = name_of(channel), json.dumps([channel, payload, []])
                ears = self._rows(f"SELECT ear, {LIVE} FROM aiolock_ears WHERE channel = %s", name)
                for ear, number in ears:
                    if number is not None:
                        sent = "INSERT INTO aiolock_messages(ear, channel, message) VALUES(%s, %s, %s)"
                        self._rows(sent, ear, name, message)
                        told.add(number)
            self._rows("COMMIT")
            for number in told:
                with suppress(pymysql.Error):
                    self._rows(f"KILL QUERY {number}")

    def now_us(self) -> int:
        """The server's time."""
        return int(self._rows(NOW)[0][0])

    def listeners(self, channel: str) -> int:
        """How many listen."""
        return int(self._rows(f"SELECT COUNT({LIVE}) FROM aiolock_ears WHERE channel = %s", name_of(channel))[0][0])

    def listen(self, *channels: str) -> None:
        self._rows("SELECT GET_LOCK(%s, 0)", f"aiolock ear {self._number}", link=self._ear)
        for channel in channels:
            self._rows("INSERT INTO aiolock_ears VALUES(%s, %s)", name_of(channel), self._number)

    def heard(self) -> list[tuple[str, str]]:
        query = "SELECT id, message FROM aiolock_messages WHERE ear = %s ORDER BY id"
        found = self._rows(query, self._number)
        for number, _ in found:
            self._rows("DELETE FROM aiolock_messages WHERE id = %s", number)
        return [tuple(json.loads(message)[:2]) for _, message in found]

    def close(self) -> None:
        self._link.close()
        self._ear.close()

    def _rows(self, query: str, *values: object, link: pymysql.Connection[Any] | None = None) -> Any:
        with (link or self._link).cursor() as cursor:
            cursor.execute(query, values or None)
            return cursor.fetchall()
