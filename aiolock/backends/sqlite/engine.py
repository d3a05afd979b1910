"""SQLite in one thread, one write for the requests of a moment; messages by datagrams after it."""

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

from ...errors import BackendError
from ...log import Log
from ...scripts import commands, interpreter
from ...scripts.base import Call
from ..base import Abilities
from ..transactional.engine import Done, Outcome, Unavailable
from ..transactional.loaded import Loaded, Row
from .clock import HostClock
from .file import LockFile, is_busy
from .rows import GUARDED, anywhere, load, save, save_if, sweep
from .sockets import Sockets, offered
from .thread import SerialThread

logger: Log = Log("aiolock.redis")
R = TypeVar("R")

REASONED = 0.8
"""The part of `request_timeout` after which a file that stays locked is an outage: those who ask still hear why."""
SWEEP = 100
"""Rows that are written between two sweeps at least."""
Decided = tuple[list[Outcome], list[tuple[str, str]], int]
"""The outcomes, the messages, and how many rows were written."""


class SQLiteEngine:
    """One file, for all processes of a host.

    Args:
        path: of the file; made if it is missing.
        request_timeout: seconds that those who ask wait for an answer.

    Attributes:
        address: the path.
        abilities: all; no messages where there are no Unix sockets.
        busy: a transaction is on its way.

    Raises:
        ConfigurationError: lupa, which runs the scripts, is not installed.
    """

    def __init__(self, path: Path, request_timeout: float = 5.0) -> None:
        interpreter.load("locks in SQLite run")
        self.path: Path = path.absolute()
        self.address: str = str(self.path)
        self.busy: bool = False
        self._file = LockFile(self.path, REASONED * request_timeout, lambda: self._closing)
        there = Path(os.path.realpath(path))
        self.abilities: Abilities = Abilities(messages=offered(there), store="SQLite")
        self._thread: SerialThread | None = None
        self._channels: set[str] = set()
        self._sockets: Sockets | None = None
        self._closing = False
        # Only the thread uses these.
        self._link: sqlite3.Connection | None = None
        self._clock: HostClock
        self._ran = False  # what is attempted may have been done
        self._lost: Unavailable | None = None  # why the file was let go of, until a request has told it
        self._dead: set[str] = set()  # listeners that are to be forgotten
        # Rows since the last sweep; by chance, so that those of processes that write little are swept, too.
        self._written = randrange(SWEEP)
        self._swept: str | None = None  # the last key that a sweep saw

    async def open(self, deliver: Callable[[str, str], None]) -> None:
        loop = asyncio.get_running_loop()
        self._closing, self._channels, self._lost, self.busy = False, set(), None, False
        self._thread = SerialThread("aiolock sqlite", self._file.unavailable)
        self._sockets = Sockets(deliver, loop) if self.abilities.messages else None
        try:
            opened: asyncio.Future[Unavailable | None] = loop.create_future()
            self._do(self._use, partial(_resolve, opened))
            why = await opened
            if why is not None:
                raise why
        except BaseException:
            await self.aclose()
            raise

    def transact(self, calls: Sequence[Call[Any]], done: Done) -> None:
        """In one transaction."""
        self.busy = True
        self._do(partial(self._transact, calls), partial(self._transacted, calls, done))

    def _transacted(self, calls: Sequence[Call[Any]], done: Done, outcomes: Sequence[Outcome] | Unavailable) -> None:
        self.busy = False
        done(calls, outcomes)

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
            link = self._file.connect()
        try:
            if not (self._sockets is not None and self._sockets.look(self._file.real)) and not fresh:
                return
            self._begin(link)
            if fresh:
                self._tick(HostClock(link, self._file.real))
            self._enlist(link)
            link.execute("COMMIT")
        except BaseException as error:
            self._link = None
            link.close()
            why = self._file.unavailable(error)
            raise why from why.__cause__
        self._link = link

    def _tick(self, clock: HostClock) -> None:
        """Have another clock. The one before lasts until then: while a lost file is opened again, leases go on."""
        self._stop_clock()
        self._clock = clock

    def _stop_clock(self) -> None:
        if hasattr(self, "_clock"):
            self._clock.close()

    def _begin(self, link: sqlite3.Connection) -> None:
        self._file.patiently(link, lambda: link.execute("BEGIN IMMEDIATE"))

    def _attempt(self, step: Callable[[sqlite3.Connection], R]) -> R:
        """Do something with the file.

        Raises:
            Unavailable: it was not done; or perhaps, if `step` has set `_ran`.
        """
        self._use()
        link = self._link
        assert link is not None
        self._ran = False
        try:
            return step(link)
        except BaseException as error:
            busy = is_busy(error)
            if not (busy and _rolled_back(link)):  # another connection may do better
                self._link = None
                link.close()
            why = self._file.unavailable(error, self._ran and not busy)
            if self._link is None:
                self._lost = why
            raise why from why.__cause__

    def _changing(self, change: Callable[[sqlite3.Connection], R]) -> R:
        """Do `change` in a transaction. Raises what `_attempt` does."""

        def transaction(link: sqlite3.Connection) -> R:
            self._begin(link)
            self._file.check()
            result = change(link)
            self._ran = True
            link.execute("COMMIT")
            return result

        return self._attempt(transaction)

    def _reserve(self) -> None:
        """Let the clock go on, even after the machine loses power."""
        until = self._changing(self._clock.reserve)
        try:
            self._file.sync()
        except OSError as error:
            raise self._file.unavailable(error) from error
        self._clock.until = until

    def _transact(self, calls: Sequence[Call[Any]]) -> list[Outcome]:
        lost, self._lost = self._lost, None
        if lost is not None:  # by what nobody waited for; it may be another file by now, so all must be looked at
            raise Unavailable(lost.error) from lost.__cause__
        try:
            return self._decided(calls)
        except Unavailable:
            self._lost = None
            raise

    def _decided(self, calls: Sequence[Call[Any]]) -> list[Outcome]:
        self._use()
        if self._clock.runs_out():
            self._reserve()
        keys = list(dict.fromkeys(key for call in calls for key in call.keys))
        decided = self._attempt(partial(self._guess, calls, keys)) if len(keys) <= GUARDED else None
        outcomes, published, written = decided or self._changing(partial(self._decide, calls, keys))
        self._written += written
        if self._dead or self._written >= SWEEP:
            self._do(self._sweep, _ignore)  # those who ask do not wait for it; if it fails, the next request says why
        try:
            self._publish(published)
        except Exception:  # it is decided anyway
            logger.exception("%s: messages were not sent: waiters ask by themselves", self.address)
        return outcomes

    def _publish(self, published: Sequence[tuple[str, str]]) -> None:
        """Send to those who listen now: whoever began to before the write may have read what was there before it."""
        if self._sockets is not None and self._link is not None:
            for channel, payload in published:
                for name in self._listeners(self._link, channel):
                    self._sockets.send(name, channel, payload)

    def _guess(self, calls: Sequence[Call[Any]], keys: Sequence[str], link: sqlite3.Connection) -> Decided | None:
        """Decide without the lock, on what is there. One statement has it, in which no Python runs: it writes, unless
        others have changed what was there. Then the result is None.

        Always to decide in a transaction would be simpler, and no slower; but a process that is stopped would keep all
        others waiting about three times as often: at 16 of 300 stops at full speed instead of 5 (2026-11-28, changed to
        that, `python -m benchmarks.stopping`).
        """
        before = load(link, keys)
        outcomes, store = self._run(calls, before)
        changes = store.changes()
        if changes:
            self._ran = True
            if not self._file.patiently(link, lambda: save_if(link, changes, keys, before)):
                return None
        self._file.check()
        return outcomes, store.published, len(changes)

    def _decide(self, calls: Sequence[Call[Any]], keys: Sequence[str], link: sqlite3.Connection) -> Decided:
        """Decide in a transaction that others wait for."""
        outcomes, store = self._run(calls, load(link, keys))
        changes = store.changes()
        save(link, changes)
        return outcomes, store.published, len(changes)

    def _run(self, calls: Sequence[Call[Any]], rows: dict[str, Row]) -> tuple[list[Outcome], Loaded]:
        store = Loaded(self._clock.now_us(), rows, self._count)
        return [_answer(store, call) for call in calls], store

    def _sweep(self) -> None:
        """Delete a part of what has expired or is gone: twice as many rows are looked at as were written."""
        now, rows, self._written = self._clock.now_us(), 2 * self._written, 0
        dead, self._dead = self._dead, set()

        def clean(link: sqlite3.Connection) -> str:
            after = anywhere(link) if self._swept is None else self._swept
            forget = "DELETE FROM aiolock_listeners WHERE socket = ?"
            link.executemany(forget, [(name,) for name in dead])
            return sweep(link, after, rows, now)

        self._swept = self._changing(clean)

    def _listeners(self, link: sqlite3.Connection, channel: str) -> list[str]:
        found = link.execute("SELECT socket FROM aiolock_listeners WHERE channel = ?", (channel,))
        return [name for (name,) in found]

    def _count(self, channel: str) -> int:
        """How many listen. Those that have died do not, and are forgotten."""
        assert self._link is not None
        names = self._listeners(self._link, channel)
        dead = self._silent(names)
        self._dead |= dead
        return len(names) - len(dead)

    def _silent(self, names: Sequence[str]) -> set[str]:
        return {name for name in names if self._sockets is None or not self._sockets.heard(name)}

    def _enlist(self, link: sqlite3.Connection) -> None:
        """Say who listens here, and forget all that have died. It always writes, so a read-only file is known."""
        names = [name for (name,) in link.execute("SELECT DISTINCT socket FROM aiolock_listeners")]
        dead = {"", *(self._silent(names) if self._sockets is not None else ())}
        link.executemany("DELETE FROM aiolock_listeners WHERE socket = ?", [(name,) for name in dead])
        for channel in tuple(self._channels):
            self._listens(link, channel)

    def _register(self, channel: str) -> BackendError | None:
        if channel in self._channels:
            self._changing(lambda link: self._listens(link, channel))
        return None if self._sockets is None else self._sockets.refusal()

    def _listens(self, link: sqlite3.Connection, channel: str) -> None:
        if self._sockets is not None and self._sockets.failure is None:
            link.execute("INSERT OR IGNORE INTO aiolock_listeners VALUES(?, ?)", (channel, self._sockets.name))

    def _forget(self, channel: str) -> None:
        sockets = self._sockets
        if sockets is not None:
            delete = "DELETE FROM aiolock_listeners WHERE socket = ? AND channel = ?"
            self._changing(lambda link: link.execute(delete, (sockets.name, channel)))

    def _end(self) -> None:
        if self._link is not None:
            with contextlib.suppress(Unavailable):  # others notice that the socket is gone
                self._changing(self._rest)
        if self._link is not None:
            self._link.close()
            self._link = None
        self._stop_clock()

    def _rest(self, link: sqlite3.Connection) -> None:
        if self._sockets is not None:
            link.execute("DELETE FROM aiolock_listeners WHERE socket = ?", (self._sockets.name,))
        self._clock.rest(link)


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
