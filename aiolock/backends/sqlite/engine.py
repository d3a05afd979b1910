"""SQLite in one thread, a write transaction for the requests of a moment; messages by datagrams after the commit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import randrange
from typing import Any, TypeVar
from uuid import uuid4

from ...errors import BackendError
from ...log import Log
from ...scripts import commands, interpreter
from ...scripts.base import Call
from ..base import Abilities
from ..transactional.engine import Outcome, Unavailable
from ..transactional.loaded import Loaded, Row
from .clock import HostClock
from .file import LockFile, is_busy, patiently
from .sockets import Sockets, offered
from .thread import SerialThread

logger: Log = Log("aiolock.redis")
R = TypeVar("R")
Message = tuple[str, str, str]
"""To which socket, the channel, and the payload."""

FEW = 500
"""Keys that one statement names; SQLite allows 999 in its oldest versions."""
SWEEP = 1000
"""Rows that are written between two sweeps at least."""


class SQLiteEngine:
    """One file, for all processes of a host.

    Args:
        path: of the file; made if it is missing.

    Attributes:
        address: the path.
        abilities: all; no messages where there are no Unix sockets.

    Raises:
        ConfigurationError: lupa, which runs the scripts, is not installed.
    """

    def __init__(self, path: Path) -> None:
        interpreter.load("locks in SQLite run", "sqlite")
        self.path: Path = path.absolute()
        self.address: str = str(self.path)
        self._file = LockFile(self.path)
        self._name = uuid4().hex
        there = Path(os.path.realpath(path))
        self.abilities: Abilities = Abilities(messages=offered(there, self._name), store="SQLite")
        self._thread: SerialThread | None = None
        self._channels: set[str] = set()
        self._sockets: Sockets | None = None
        self._closing = False
        # Only the thread uses these.
        self._link: sqlite3.Connection | None = None
        self._clock: HostClock
        # Since the last sweep; those of processes that never write so much are swept, too. And what it left.
        self._written, self._rows = randrange(SWEEP), 0

    async def open(self, deliver: Callable[[str, str], None]) -> None:
        loop = asyncio.get_running_loop()
        self._closing, self._channels, self._name = False, set(), uuid4().hex
        self._thread = SerialThread("aiolock sqlite", self._file.unavailable)
        self._sockets = Sockets(self._name, deliver, loop) if self.abilities.messages else None
        try:
            opened: asyncio.Future[Unavailable | None] = loop.create_future()
            self._do(self._use, partial(_resolve, opened))
            why = await opened
            if why is not None:
                raise why
        except BaseException:
            await self.aclose()
            raise

    def transact(self, calls: Sequence[Call[Any]], done: Callable[[Sequence[Outcome] | Unavailable], None]) -> None:
        self._do(partial(self._transact, calls), done)

    def listen(self, channel: str, done: Callable[[Unavailable | BackendError | None], None]) -> None:
        self._channels.add(channel)
        self._do(partial(self._register, channel), done)

    def unlisten(self, channel: str) -> None:
        self._channels.discard(channel)
        self._do(partial(self._forget, channel), _ignore)

    async def aclose(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._closing = True
        thread.do(self._end, _ignore)
        try:
            await thread.stop()
        finally:
            if self._sockets is not None:
                self._sockets.close()
                self._sockets = None

    def _do(self, job: Callable[[], Any], done: Callable[[Any], object]) -> None:
        if self._thread is not None:
            self._thread.do(job, done)

    # In the thread.

    def _use(self) -> None:
        """Open the file and have a socket, if that has not been done."""
        fresh, link = self._link is None, self._link
        if link is None:
            link = self._file.connect(lambda: self._closing)
        try:
            if not (self._sockets is not None and self._sockets.look(self._file.real)) and not fresh:
                return
            self._begin(link)
            if fresh:
                self._clock = HostClock(link)
            self._enlist(link)
            link.execute("COMMIT")
        except BaseException as error:
            self._link = None
            link.close()
            why = self._file.unavailable(error)
            raise why from why.__cause__
        self._link = link

    def _begin(self, link: sqlite3.Connection) -> None:
        patiently(lambda: link.execute("BEGIN IMMEDIATE"), lambda: self._closing)

    def _changing(self, change: Callable[[sqlite3.Connection], R]) -> R:
        """Do `change` in a transaction.

        Raises:
            Unavailable: it was not done; or perhaps, if the commit failed.
        """
        self._use()
        link, ran = self._link, False
        assert link is not None
        try:
            self._begin(link)
            self._file.check()
            result = change(link)
            ran = True
            link.execute("COMMIT")
        except BaseException as error:
            if not (is_busy(error) and _rolled_back(link)):  # another connection may do better
                self._link = None
                link.close()
            why = self._file.unavailable(error, ran)
            raise why from why.__cause__
        return result

    def _reserve(self) -> None:
        """Let the clock go on, also after the machine loses power: this transaction is on the disk when it ends."""
        assert self._link is not None
        self._link.execute("PRAGMA synchronous = FULL")
        try:
            self._changing(self._clock.reserve)
        finally:
            if self._link is not None:
                self._link.execute("PRAGMA synchronous = NORMAL")

    def _transact(self, calls: Sequence[Call[Any]]) -> list[Outcome]:
        self._use()
        if self._clock.runs_out():
            self._reserve()
        outcomes, messages = self._changing(partial(self._decide, calls))
        try:
            self._send(messages)
        except Exception:  # it is decided all the same
            logger.exception("messages of %s were not sent: waiters ask by themselves", self.address)
        return outcomes

    def _decide(self, calls: Sequence[Call[Any]], link: sqlite3.Connection) -> tuple[list[Outcome], list[Message]]:
        keys = list(dict.fromkeys(key for call in calls for key in call.keys))
        listening: dict[str, list[str]] = {}

        def count(channel: str) -> int:
            listening[channel] = self._listeners(link, channel)
            return len(listening[channel])

        store = Loaded(self._clock.now_us(), self._load(link, keys), count)
        outcomes = [_answer(store, call) for call in calls]
        self._save(link, store)
        return outcomes, [(name, *message) for message in store.published for name in listening[message[0]]]

    def _send(self, messages: Sequence[Message]) -> None:
        if self._sockets is not None:
            for message in messages:
                self._sockets.send(*message)

    def _load(self, link: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Row]:
        found: dict[str, Row] = {}
        for at in range(0, len(keys), FEW):
            some = keys[at : at + FEW]
            holes = ",".join("?" * len(some))
            rows = link.execute(f"SELECT key, kind, value, expires_us FROM aiolock WHERE key IN ({holes})", some)
            found.update((key, Row(kind, value, expires)) for key, kind, value, expires in rows)
        return found

    def _save(self, link: sqlite3.Connection, store: Loaded) -> None:
        changes = store.changes()
        for key, row in changes.items():
            if row is None:
                link.execute("DELETE FROM aiolock WHERE key = ?", (key,))
            else:
                link.execute("REPLACE INTO aiolock VALUES(?, ?, ?, ?)", (key, *row))
        self._written += len(changes)
        if self._written > max(SWEEP, 2 * self._rows):
            link.execute("DELETE FROM aiolock WHERE expires_us < ?", (store.wall_us(),))
            (self._rows,) = link.execute("SELECT count(*) FROM aiolock").fetchone()
            self._written = 0

    def _listeners(self, link: sqlite3.Connection, channel: str) -> list[str]:
        """Who listens. Those that have died do not, and are forgotten."""
        found = link.execute("SELECT socket FROM aiolock_listeners WHERE channel = ?", (channel,))
        return self._alive(link, [name for (name,) in found])

    def _alive(self, link: sqlite3.Connection, names: Sequence[str]) -> list[str]:
        alive = [name for name in names if self._sockets is not None and self._sockets.heard(name)]
        if len(alive) < len(names):
            dead = [(name,) for name in names if name not in alive]
            link.executemany("DELETE FROM aiolock_listeners WHERE socket = ?", dead)
        return alive

    def _enlist(self, link: sqlite3.Connection) -> None:
        """Say who listens here, and forget all that have died. It always writes, so a read-only file is known."""
        link.execute("DELETE FROM aiolock_listeners WHERE socket = ?", (self._name,))
        if self._sockets is not None:
            self._alive(link, [name for (name,) in link.execute("SELECT DISTINCT socket FROM aiolock_listeners")])
        for channel in tuple(self._channels):
            self._listens(link, channel)

    def _register(self, channel: str) -> BackendError | None:
        if channel in self._channels:
            self._changing(lambda link: self._listens(link, channel))
        return None if self._sockets is None else self._sockets.refusal()

    def _listens(self, link: sqlite3.Connection, channel: str) -> None:
        if self._sockets is not None and self._sockets.failure is None:
            link.execute("INSERT OR IGNORE INTO aiolock_listeners VALUES(?, ?)", (channel, self._name))

    def _forget(self, channel: str) -> None:
        delete = "DELETE FROM aiolock_listeners WHERE channel = ? AND socket = ?"
        self._changing(lambda link: link.execute(delete, (channel, self._name)))

    def _end(self) -> None:
        if self._link is None:
            return
        with contextlib.suppress(Unavailable):  # others notice that the socket is gone
            self._changing(lambda link: link.execute("DELETE FROM aiolock_listeners WHERE socket = ?", (self._name,)))
        if self._link is not None:
            self._link.close()
            self._link = None


def _answer(store: Loaded, call: Call[Any]) -> Outcome:
    try:
        return commands.answer(store, call)
    except Exception as error:  # one request must not end all others of the moment
        failure = BackendError(call.name, f"{call.doing} failed: {error}")
        failure.__cause__ = error
        return failure


def _rolled_back(link: sqlite3.Connection) -> bool:
    """End what is open; return False if not even that works."""
    try:
        if link.in_transaction:
            link.execute("ROLLBACK")
    except sqlite3.Error:
        return False
    return True


def _resolve(future: asyncio.Future[R], result: R) -> None:
    if not future.done():
        future.set_result(result)


def _ignore(_: object) -> None:
    pass
