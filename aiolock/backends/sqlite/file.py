"""The file: how it is opened, what is refused, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ...errors import AiolockError, BackendError, ConfigurationError
from ..transactional.engine import Unavailable
from .link import Link
from .place import refuse_links, refuse_place

T = TypeVar("T")

APPLICATION = 0x61696F6C
"""What the file says of itself: "aiol"."""
VERSION = 1
SCHEMA = (
    "CREATE TABLE aiolock(key TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, expires_us INTEGER)"
    " WITHOUT ROWID",
    "CREATE TABLE aiolock_listeners(channel TEXT, socket TEXT, PRIMARY KEY(channel, socket)) WITHOUT ROWID",
    "CREATE TABLE aiolock_clock(boot TEXT NOT NULL, ahead_us INTEGER NOT NULL, until_us INTEGER NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
LOG = 4_194_304
"""Bytes to which the log shrinks again after a reader that stayed made it grow; about what it has otherwise."""
FIRST_PAUSE, LONGEST_PAUSE = 0.0001, 0.005
"""Seconds between two attempts, while others keep the file locked: the first, and at most."""
_MEANINGS = {
    sqlite3.SQLITE_BUSY: "another process keeps it locked: a transaction that was left open, or a process that is "
    "paused in one",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that its folder exists, and that you may write there",
    sqlite3.SQLITE_CORRUPT: "it is damaged: stop all its users and delete it; whoever holds a lock then loses it",
    sqlite3.SQLITE_FULL: "the disk is full: make room",
    sqlite3.SQLITE_IOERR: "its disk cannot be read or written: see the system's log",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database: give the locks a file of their own",
    sqlite3.SQLITE_PERM: "you may not write to it: check its permissions",
    sqlite3.SQLITE_READONLY: "it is read-only: let the process write to the file and to its folder",
}
_PASSING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED})


class LockFile:
    """The database file of a store.

    Args:
        path: absolute.
        patience: seconds after which it is said that another process keeps it locked, if none has written meanwhile.
        closing: whether nobody wants it any more.

    Attributes:
        path: see above.
        real: the same without symbolic links, as of the last `connect`: what belongs to the file is next to it.
    """

    def __init__(self, path: Path, patience: float, closing: Callable[[], bool]) -> None:
        self.path: Path = path
        self.real: Path = path
        self._patience = patience
        self._closing = closing
        self._identities: list[tuple[int, int]] = []

    def connect(self) -> sqlite3.Connection:
        """Open it; make it if it is missing.

        Raises:
            Unavailable: it cannot be used.
        """
        self.real = Path(os.path.realpath(self.path))
        if not self.real.parent.is_dir():
            text = f"there is no folder {self.path.parent}: create it (four slashes begin an absolute path: "
            raise Unavailable(ConfigurationError("", f"{text}sqlite:////var/lib/app/locks.db)"))
        refuse_place(self.real)
        with contextlib.suppress(OSError):  # SQLite says what is wrong
            refuse_links(self.real, os.stat(self.real))
        try:
            link = Link(self.real, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise self.unavailable(error) from error
        try:
            self.patiently(link, lambda: self._prepare(link))
            self._identities = self._found(self.real)
        except BaseException as error:
            link.close()
            if isinstance(error, FileNotFoundError):  # before SQLite has made what it keeps beside
                raise Unavailable(self._error("it was deleted while it was opened")) from error
            if isinstance(error, sqlite3.Error | OSError):
                raise self.unavailable(error) from error
            raise
        return link

    def patiently(self, link: sqlite3.Connection, step: Callable[[], T]) -> T:
        """Do what others may hold up, again and again. However many they are, it is an error only if none goes on.

        SQLite's own handler gives up after a fixed time, and sleeps for up to 100 ms between two attempts.
        """
        written, until, pause = None, 0.0, FIRST_PAUSE
        while True:
            try:
                return step()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or self._closing():
                    raise
                if time.monotonic() >= until:
                    before, written = written, _written(link)
                    if until and written == before:
                        raise
                    until = time.monotonic() + self._patience
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(1.5 * pause, LONGEST_PAUSE)

    def sync(self) -> None:
        """Wait until all that was committed is on the disk. Nobody else does: SQLite would keep the file locked."""
        fd = os.open(f"{self.real}-wal", os.O_RDWR)  # SQLite has no lock on this one, which closing it would end
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def check(self) -> None:
        """Raise if the path, or what SQLite keeps next to it, is another file's by now: others use that one."""
        try:
            same = self._found(self.path) == self._identities
        except OSError:
            same = False
        if not same:
            raise Unavailable(self._error("it was deleted or replaced: what was locked in it is not locked any more"))

    def _found(self, path: Path) -> list[tuple[int, int]]:
        """What a path leads to, and the memory that all processes share: SQLite's locks are there."""
        stats = [os.stat(path), os.stat(f"{self.real}-shm")]
        refuse_links(path, stats[0])
        return [(stat.st_dev, stat.st_ino) for stat in stats]

    def unavailable(self, error: BaseException, ran: bool = False) -> Unavailable:
        """What an error means; with `ran`, what was asked for may have been done."""
        if isinstance(error, Unavailable):
            error.ran = error.ran or ran
            return error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        meaning = _MEANINGS.get(code, "a request on it failed")
        passing = code in _PASSING or not isinstance(error, sqlite3.Error)
        found = Unavailable(self._error(f"{meaning} ({error})", passing), ran)
        found.__cause__ = error
        return found

    def _error(self, what: str, transient: bool = True) -> AiolockError:
        return BackendError("", f"{self.path}: {what}", transient)

    def _prepare(self, link: sqlite3.Connection) -> None:
        link.execute("BEGIN")
        try:
            ours = self._is_ours(link)  # before anything is written to what is something else's
        finally:
            link.execute("ROLLBACK")
        (mode,) = link.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise self._refused(f"it cannot have a write-ahead log here (its journal is {mode!r})")
        link.execute("PRAGMA synchronous = NORMAL")
        link.execute(f"PRAGMA journal_size_limit = {LOG}")
        if ours:  # who only looks needs no lock
            return
        link.execute("BEGIN IMMEDIATE")
        try:
            ours = self._is_ours(link)  # by now
            for statement in SCHEMA if not ours else ():
                link.execute(statement)
            link.execute("COMMIT")
        finally:
            if link.in_transaction:
                link.execute("ROLLBACK")

    def _is_ours(self, link: sqlite3.Connection) -> bool:
        """Whether it has the tables; False if it has none at all."""
        (application,) = link.execute("PRAGMA application_id").fetchone()
        (version,) = link.execute("PRAGMA user_version").fetchone()
        (tables,) = link.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application == APPLICATION and version != VERSION:
            raise self._refused(f"another version of aiolock made it (its format is {version}, ours is {VERSION})")
        if application != APPLICATION and (tables or application):
            raise self._refused("it is the database of another program")
        return bool(application)

    def _refused(self, what: str) -> Unavailable:
        return Unavailable(ConfigurationError("", f"{self.path}: {what}: give the locks a file of their own"))


def is_busy(error: BaseException) -> bool:
    """Whether others keep the file locked."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _written(link: sqlite3.Connection) -> object:
    """Something else once others have written; None if it cannot be read now."""
    with contextlib.suppress(sqlite3.Error):
        return link.execute("PRAGMA data_version").fetchone()
    return None
