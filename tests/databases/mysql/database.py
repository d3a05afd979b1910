"""Databases of MariaDB and of MySQL."""

from __future__ import annotations

import contextlib
import os
from typing import Any
from urllib.parse import urlsplit

import asyncmy
import pymysql

from aiolock.backends.mysql import MySQLEngine
from aiolock.backends.mysql.reader import DatabaseReader
from aiolock.backends.mysql.session import SCHEMA
from tests.support import mysql
from tests.support.mysql_side import MySQLSide, equip
from tests.support.mywire import MySQLFramer

from ..database import NUMBERS, Database

FAULTS = {"fails": "CALL no_such()", "takes long": "DO SLEEP(60)", "ends its session": "KILL CONNECTION_ID()"}


class MySQLDatabase(Database):
    """See `Database`.

    Attributes:
        made_by: whose server it is on.
    """

    rows, key, locks = "aiolock_rows", "k", "aiolock_locks"
    careless = "innodb_flush_log_at_trx_commit"
    holds_in = False
    queued = "SELECT JSON_LENGTH(value) FROM aiolock_rows WHERE k = %s"
    schema = SCHEMA
    sweep = "CALL aiolock_sweep_1()"
    undo = "DROP PROCEDURE aiolock_exchange_1"
    idle = (
        "SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p "
        "ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE() AND p.command = 'Sleep'"
    )
    nothing = "nothing"
    errors = pymysql.Error
    clock = "UTC_TIMESTAMP(6)"
    stepped = "INTERVAL (SELECT hours FROM stepped) HOUR"
    scheme, called = "mysql", "the server"
    engines, server, framing = MySQLEngine, mysql.OwnServer, MySQLFramer
    gone = asyncmy.errors.OperationalError(2013, "Lost connection to MySQL server during query")
    writes = b'"hash"'
    made_by = mysql.MARIADB

    @classmethod
    def new(cls) -> MySQLDatabase:
        name = f"own_{os.getpid()}_{next(NUMBERS)}"
        with mysql.connect(mysql.port(cls.made_by)) as link:
            link.cursor().execute(f"CREATE DATABASE {name}")
        return cls(mysql.url(name, cls.made_by))

    @property
    def where(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    def behind(self, port: int) -> str:
        return self.url.replace(str(self.where[1]), str(port))

    def drop(self) -> None:
        self.run(f"DROP DATABASE {self.name}")

    def connect(self, url: str = "") -> pymysql.Connection[Any]:
        parts = urlsplit(url or self.url)
        return mysql.connect(parts.port or 0, database=parts.path.strip("/"), user=parts.username or "")

    def run(self, statement: str, *values: object, url: str = "") -> list[tuple[Any, ...]]:
        with self.connect(url) as link, link.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def equip(self, url: str = "", clock: str = "") -> None:
        with self.connect(url) as link:
            equip(link, lambda text: text.replace(self.clock, clock or self.clock))

    def made(self) -> list[tuple[Any, ...]]:
        return self.run("SHOW TABLES")

    def reader(self) -> DatabaseReader:
        return DatabaseReader(self.url)

    def side(self, *, empty: bool = True) -> MySQLSide:
        return MySQLSide(self.where[1], self.name, empty)

    def break_sweep(self, fault: str) -> None:
        self.run("DROP PROCEDURE aiolock_sweep_1")
        self.run(f"CREATE PROCEDURE aiolock_sweep_1() {FAULTS[fault]}")

    def ears(self) -> list[int]:
        query = "SELECT DISTINCT IS_USED_LOCK(CONCAT('aiolock ear ', ear)) FROM aiolock_ears"
        return [number for (number,) in self.run(query)]

    def turns(self) -> list[tuple[Any, ...]]:
        return self.run("SELECT tag, manager, until_us, crowd, firm FROM aiolock_gates WHERE manager <> 0")

    def end_turns(self) -> None:
        self.run("UPDATE aiolock_gates SET manager = 0, until_us = 0, tag = 0, firm = FALSE WHERE manager <> 0")

    def sessions(self) -> list[int]:
        query = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        return [number for (number,) in self.run(query)]

    def end(self, session: int) -> None:
        with contextlib.suppress(pymysql.Error):  # it has ended by itself
            self.run(f"KILL {session}")

    def user(self, *, allowed: bool = True, sessions: int = 0) -> str:
        url = self.user_with("EXECUTE" if allowed else "SELECT")
        self.run(f"ALTER USER {urlsplit(url).username}@'%' WITH MAX_USER_CONNECTIONS {sessions}")
        return url

    def user_with(self, *grants: str) -> str:
        """Make a user with rights in it; return the address with which it comes."""
        name = f"u_{self.name}_{next(NUMBERS)}"
        self.run(f"CREATE USER {name}@'%'")
        for grant in grants:
            self.run(f"GRANT {grant} ON {self.name}.* TO {name}@'%'")
        return self.url.replace("root", name)


class RealMySQL(MySQLDatabase):
    """One of MySQL itself."""

    made_by, server = mysql.MYSQL, mysql.OwnMySQL
