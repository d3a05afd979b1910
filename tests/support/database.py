"""Scripts and looks at locks in a database, behind the managers' backs."""

from __future__ import annotations

import json
import secrets
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, LiteralString, TypeVar, cast

import psycopg

from aiolock.backends.postgres.session import SCHEMA
from aiolock.backends.transactional.channels import ear_of, hold_of, name_of
from aiolock.backends.transactional.held import is_lock
from aiolock.backends.transactional.loaded import Loaded, Row
from aiolock.backends.transactional.served import kept, shown
from aiolock.scripts import commands
from aiolock.scripts.base import Call
from aiolock.scripts.store import ErrorReply

from .filed import Live
from .scripting import Refused, StoreSide, guarded

R = TypeVar("R")


class ServedSide(StoreSide):
    """A `StoreSide` whose store is what a database has now: each step is a transaction of its own."""

    def run(self, call: Call[R]) -> R:
        with self.opened() as store:
            try:
                reply = commands.run(store, guarded(call.script.lua), call.keys, call.args)
            except ErrorReply as error:
                raise Refused(str(error)) from error
        return call.script.decode(reply)

    def keys(self) -> set[str]:
        """All that live."""
        with self.opened() as store:
            return set(store.keys())

    @abstractmethod
    def opened(self) -> AbstractContextManager[Loaded]:
        """All rows, in a transaction."""

    @abstractmethod
    def now_us(self) -> int:
        """The server's time."""

    @abstractmethod
    def listeners(self, channel: str) -> int:
        """How many listen."""


class DatabaseSide(ServedSide):
    """A database of PostgreSQL.

    Args:
        dsn: the database.
        empty: delete its locks.
    """

    def __init__(self, dsn: str, empty: bool = True) -> None:
        super().__init__()
        self._link = psycopg.connect(dsn, autocommit=True)
        self._ear = psycopg.connect(dsn, autocommit=True)
        if self._one("SELECT to_regclass('aiolock.rows')") is None:
            self._link.execute(cast(LiteralString, SCHEMA.read_text(encoding="utf-8")))
        if empty:
            self._link.execute("TRUNCATE aiolock.rows, aiolock.turns")
        self.store = Live(self)

    @contextmanager
    def opened(self) -> Iterator[Loaded]:
        """All rows, in a transaction."""
        self._link.execute("BEGIN; LOCK TABLE aiolock.rows IN EXCLUSIVE MODE")
        found = self._link.execute("SELECT key, kind, value::text, expires_us FROM aiolock.rows").fetchall()
        rows = {shown(key): Row.of_json(kind, text, expires) for key, kind, text, expires in found}
        store = Loaded(self.now_us(), rows, self.listeners)
        try:
            yield store
        finally:
            for key, row in store.changes().items():
                self._link.execute("DELETE FROM aiolock.rows WHERE key = %s", (kept(key),))
                if row is not None:
                    values = kept(key), row.kind, row.as_json(), row.expires, secrets.randbits(62)
                    self._link.execute("INSERT INTO aiolock.rows VALUES(%s, %s, %s::json, %s, %s)", values)
            for channel, payload in store.published:
                message = json.dumps([channel, payload, []])
                self._link.execute("SELECT pg_notify(%s, %s)", (name_of(channel), message))
            self._link.execute("COMMIT")

    def now_us(self) -> int:
        """The server's time."""
        return int(self._one("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))

    def listeners(self, channel: str) -> int:
        """How many listen."""
        number = ear_of(name_of(channel))
        if number is None:  # it is the last thing that its session has done
            heard = f'LISTEN "{name_of(channel)}"'
            return int(self._one("SELECT count(*) FROM pg_stat_activity WHERE query = %s", heard))
        return int(
            self._one(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                number >> 32,
                number & 0xFFFFFFFF,
            )
        )

    def listen(self, *channels: str) -> None:
        for channel in channels:
            name = name_of(channel)
            number = hold_of(channel) if is_lock(channel) else ear_of(name)
            self._ear.execute(cast(LiteralString, f'LISTEN "{name}"'))
            if number is not None:
                self._ear.execute("SELECT pg_advisory_lock(%s)", (number,))

    def heard(self) -> list[tuple[str, str]]:
        return [tuple(json.loads(one.payload)[:2]) for one in self._ear.notifies(timeout=0.05)]

    def close(self) -> None:
        self._link.close()
        self._ear.close()

    def _one(self, query: LiteralString, *values: object) -> Any:
        row = self._link.execute(query, values).fetchone()
        assert row is not None
        return row[0]
