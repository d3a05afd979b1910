"""What listens in a database: a session of its own, in which a lock says so for the channel of its manager."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ..transactional.channels import Channels, ear_of
from ..transactional.engine import Unavailable
from .address import Address
from .session import Session, dial, meaning

SIGN_OF_LIFE = 5.0
"""Seconds after which the session is looked at."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two attempts to listen again: doubled each time, and at most."""


class Ear:
    """Hears what is sent on some channels. Whoever sends on that of a manager tries its lock: so it knows in its
    transaction whether anyone listens, and needs no right for that.

    Args:
        address: the database.
        timeout: seconds that an answer may take.
        told: gets what was sent, after its channel's name in the database.
        missed: gets a channel on which anything may have been missed.

    Attributes:
        channels: what shall be heard.
    """

    def __init__(
        self, address: Address, timeout: float, told: Callable[[str, str], None], missed: Callable[[str], None]
    ) -> None:
        self.channels: Channels = Channels()
        self._address = address
        self._timeout = timeout
        self._told = told
        self._missed = missed
        self._tuned: set[str] = set()
        self._session: Session | None = None
        self._alone = asyncio.Lock()  # a session does one thing at a time
        self._moved = 0  # what it has done so far

    async def tune(self) -> None:
        """Listen to what shall be heard, and to nothing else.

        Raises:
            Unavailable: it cannot be done now; `keep` goes on with it.
        """
        try:
            await self._turn()
            try:
                async with asyncio.timeout(self._timeout) as limit:
                    await self._tune(limit)
            except BaseException:
                self.hang_up()
                raise
            finally:
                self._alone.release()
        except Exception as error:
            why = meaning(self._address, error, self._timeout, ran=False)
            raise why from why.__cause__

    async def _turn(self) -> None:
        """Have the session alone. Others may take long, as long as they get on."""
        while True:
            moved = self._moved
            try:
                async with asyncio.timeout(self._timeout):
                    await self._alone.acquire()
                return
            except TimeoutError:
                if moved == self._moved:
                    raise

    @asynccontextmanager
    async def marked(self) -> AsyncIterator[int]:
        """Hold a lock with a number that nobody else has: who cannot get it is in the same database."""
        number = secrets.randbits(62)
        async with asyncio.timeout(self._timeout), self._alone:
            assert self._session is not None
            await self._session.link.fetchval("SELECT pg_advisory_lock($1)", number)
            yield number
            await self._session.link.fetchval("SELECT pg_advisory_unlock($1)", number)

    async def keep(self) -> None:
        """Look after the session until it is cancelled: if it ends, listen again."""
        pause = FIRST_PAUSE
        while True:
            if self._session is not None and not self._session.over:
                pause = FIRST_PAUSE
                await self._watch(self._session)
            try:
                await self.tune()
            except Unavailable:
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)

    def hang_up(self) -> None:
        """End the session without a word."""
        session, self._session = self._session, None
        self._tuned = set()
        if session is not None:
            session.end()

    async def _watch(self, session: Session) -> None:
        """Return when it has ended."""
        ended = asyncio.Event()
        session.link.add_termination_listener(lambda _: ended.set())
        while not session.over:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SIGN_OF_LIFE):
                    await ended.wait()
            if session is self._session and not session.over and self.channels.names and not self._alone.locked():
                try:
                    async with asyncio.timeout(self._timeout), self._alone:
                        await session.link.execute("SELECT 1")
                except Exception:
                    self.hang_up()

    async def _tune(self, limit: asyncio.Timeout) -> None:
        session, again = self._session, False
        if session is None or session.over:
            self._tuned = set()
            self._session = session = await dial(self._address, self._timeout)
            again = True
        for name in self._tuned - self.channels.names:
            await session.link.remove_listener(name, self._hear)
            if (number := ear_of(name)) is not None:
                await session.link.fetchval("SELECT pg_advisory_unlock($1)", number)
            self._tuned.discard(name)
            self._move(limit)
        for name in self.channels.names - self._tuned:
            await session.link.add_listener(name, self._hear)
            if (number := ear_of(name)) is not None:
                await self._claim(session, number)
            self._tuned.add(name)
            self._move(limit)
        if again:
            for channel in self.channels:
                self._missed(channel)

    def _move(self, limit: asyncio.Timeout) -> None:
        """The server answers: thousands of channels may take longer than one answer."""
        self._moved += 1
        limit.reschedule(asyncio.get_running_loop().time() + self._timeout)

    async def _claim(self, session: Session, number: int) -> None:
        """Hold the lock that says that someone listens."""
        link = session.link
        if not await link.fetchval("SELECT pg_try_advisory_lock($1)", number):
            # A session of ours whose end the server has not noticed; or a sender checks whether we listen.
            await link.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' "
                "AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
                "AND classid = $1 AND objid = $2 AND objsubid = 1 AND pid <> pg_backend_pid()",
                number >> 32,
                number & 0xFFFFFFFF,
            )
            await link.fetchval("SELECT pg_advisory_lock($1)", number)

    def _hear(self, _link: object, _pid: int, name: str, payload: Any) -> None:
        self._told(name, str(payload))
