"""What stores on a server of a database have in common: a session that asks, and another one that listens."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ...clock import Clock, SystemClock
from ...errors import BackendError
from ...log import Log
from ..base import Abilities
from .channels import Channels, name_of
from .engine import Unavailable
from .guess import GuessingEngine
from .loaded import Row
from .plan import Known, Plan, Stale, Verdict
from .words import kept as kept
from .words import shown as shown
from .words import words_of

logger: Log = Log("aiolock.redis")

SWEEP = 2000
"""Rows that managers write between two sweeps, on average."""


class Session(Protocol):
    """A connection.

    Attributes:
        equipped: the database has what we need.
    """

    equipped: bool

    @property
    def over(self) -> bool:
        """Whether we know that it has ended."""

    async def close(self) -> None:
        """End it, and say so."""

    def end(self) -> None:
        """End it without a word. Raises nothing."""


S = TypeVar("S", bound=Session)


class Ear(Protocol):
    """What listens.

    Attributes:
        channels: what shall be heard.
    """

    channels: Channels

    async def tune(self) -> None:
        """Listen to what shall be heard, and to nothing else. Raises `Unavailable`."""

    async def keep(self) -> None:
        """Go on until it is cancelled."""

    def hang_up(self) -> None:
        """End its session without a word."""


class ServedEngine(GuessingEngine, Generic[S]):
    """A database, for all processes that reach it. Subclasses say how to talk to it.

    Args:
        address: what it is called in errors.
        store: what it is.
        most: characters of a message at most.
        timeout: seconds that an answer may take.
        pushes: listen; otherwise waiters poll, and there is one session.
        clock: this process's.
    """

    def __init__(self, address: str, store: str, most: int, timeout: float, pushes: bool, clock: Clock | None) -> None:
        super().__init__(address, Abilities(messages=pushes, store=store), timeout, clock or SystemClock())
        self._most = most
        self._number = secrets.randbits(62)
        self._session: S | None = None
        self._ear: Ear | None = None
        self._written = secrets.randbelow(SWEEP)  # so that those who never write as many sweep, too

    @abstractmethod
    async def dial(self) -> S:
        """A new session. Raises `Unavailable`."""

    @abstractmethod
    async def equip(self, session: S) -> None:
        """Make what is needed, once however many begin with an empty database."""

    @abstractmethod
    async def ask(self, session: S, *words: int | str | None) -> Sequence[Sequence[Any]]:
        """Have the server carry plans out; return its rows, which `verdict_of` reads. The words are the arguments of
        `exchange_1`.
        """

    @abstractmethod
    async def sweep(self, session: S) -> None:
        """Delete what has expired."""

    @abstractmethod
    def ear(self) -> Ear:
        """What shall listen."""

    @abstractmethod
    def tag(self, number: int) -> tuple[int, ...]:
        """What stands for the number of a name."""

    @abstractmethod
    def ear_words(self, channel: str) -> tuple[int | str, ...] | None:
        """What stands for a channel that may be heard, or a lock that a transaction may have; None if it cannot."""

    @abstractmethod
    def named(self, channel: str) -> str:
        """What a channel is called in the server's answers."""

    @abstractmethod
    def meaning(self, error: Exception, ran: bool) -> Unavailable:
        """What an error means for what was asked, if it was."""

    async def open(self, deliver: Callable[[str, str | None], None]) -> None:
        """See `Engine.open`."""
        self._deliver = deliver
        try:
            self._session = await self._connect()
            if self.abilities.messages:
                self._ear = self.ear()
                await self._ear.tune()
                self.start(self._ear.keep())
        except BaseException as error:
            await self.aclose()
            if isinstance(error, Exception):
                why = self.meaning(error, ran=False)
                raise why from why.__cause__
            raise

    async def aclose(self) -> None:
        """See `Engine.aclose`."""
        try:
            await self.stop()
        finally:
            if self._ear is not None:
                self._ear.hang_up()
            session, self._session, self._ear = self._session, None, None
            if session is not None and not session.over:
                try:
                    async with asyncio.timeout(1.0):
                        await session.close()
                except Exception:
                    session.end()
                except BaseException:
                    session.end()
                    raise

    async def _connect(self) -> S:
        """Connect again: to another server, for all that is known, or to a database that was emptied."""
        self.forget()
        session = await self.dial()
        try:
            if not session.equipped:
                await self.equip(session)
        except BaseException:
            session.end()
            raise
        return session

    async def exchange(self, plans: Sequence[Plan], used_us: int, lag_us: int, version: int, keep_us: int) -> Verdict:
        """See `GuessingEngine.exchange`."""
        ran = False
        try:
            async with asyncio.timeout(self._timeout):
                session = self._session = self._session or await self._connect()
                ran = not session.over  # if it ended when nobody looked, that is told now: much may have changed
                words = self._words(plans, version, keep_us)
                rows = await self.ask(session, used_us, lag_us, version, self._number, *words)
        except BaseException as error:
            ended, self._session = self._session, None
            if ended is not None:
                ended.end()
            if not isinstance(error, Exception):
                raise
            why = self.meaning(error, ran)
            why.lost = ended is not None and not isinstance(error, TimeoutError)
            raise why from why.__cause__
        verdict = verdict_of(rows, plans, self.named)
        self._written += sum(len(plan.writes) for plan in plans)
        if self._written >= SWEEP:
            self._written = 0
            self.start(self._sweep())
        return verdict

    def _words(self, plans: Sequence[Plan], version: int, keep_us: int) -> list[str | None]:
        def message(plan: Plan, channel: str, payload: str) -> str:
            return self.message(plan, version, channel, payload, self._most)

        return words_of(plans, self.tag, self.ear_words, message, keep_us)

    async def _sweep(self) -> None:
        """Delete what has expired, in a session of its own: no request waits for that."""
        try:
            session = await self.dial()
            try:
                async with asyncio.timeout(self._timeout):
                    await self.sweep(session)
                    await session.close()
            finally:
                session.end()
        except Exception as error:
            logger.warning("rows that have expired could not be deleted: %s", self.meaning(error, ran=False))

    # Messages.

    def listen(self, channel: str, done: Callable[[Unavailable | BackendError | None], None]) -> None:
        """See `Engine.listen`."""
        assert self._ear is not None
        self._ear.channels.add(channel)
        self.start(self._tune(self._ear, done))

    def unlisten(self, channel: str) -> None:
        """See `Engine.unlisten`."""
        if self._ear is not None:
            self._ear.channels.remove(channel)
            self.start(self._tune(self._ear, lambda _: None))

    async def _tune(self, ear: Ear, done: Callable[[Unavailable | BackendError | None], None]) -> None:
        try:
            await ear.tune()
        except Unavailable as why:
            done(why)
        else:
            done(None)

    def told(self, name: str, message: str) -> None:
        """Pass on what was sent on what is called so in the database."""
        with contextlib.suppress(ValueError):  # whoever may connect may send anything
            channel, payload = self.heard(message)
            if name_of(channel) == name:
                self._deliver(channel, payload)

    def missed(self, channel: str) -> None:
        """Pass on that anything may have been missed."""
        self._deliver(channel, None)


def verdict_of(rows: Sequence[Sequence[Any]], plans: Sequence[Plan], named: Callable[[str], str]) -> Verdict:
    """Read a server's answer.

    Args:
        rows: place of a plan, key, kind, value, end, version. The first has the time in place of a version. A kind "!"
            means that the channel that is named in place of a key was misheard; "~", that a name is kept for another
            manager, with the place among those that came meanwhile; no key, that there is no more.
        plans: what it answers.
        named: what a channel is called in it.
    """
    now_us = 0
    known: dict[int, dict[str, Known]] = {}
    misheard: dict[int, set[str]] = {}
    crowd: dict[int, int] = {}
    for at, key, kind, value, expires, number in rows:
        if at == -1:
            now_us = number
            continue
        found = known.setdefault(at, {})
        if kind == "!":
            misheard.setdefault(at, set()).update(one for one in plans[at].hears if named(one) == key)
        elif kind == "~":
            crowd[at] = number
        elif key is not None:
            found[shown(key)] = Known(number, Row.of_json(kind, value, expires))
    stale = {at: Stale(found, frozenset(misheard.get(at, ())), crowd.get(at, 0)) for at, found in known.items()}
    return Verdict(now_us, stale)
