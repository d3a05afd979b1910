"""What listens in a database: a session of its own, which waits in a statement that senders end."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from ..transactional.channels import Channels
from .address import Address
from .session import INTERRUPTED, Session, code_of, dial, meaning

SIGN_OF_LIFE = 5
"""Seconds that the session waits at most."""
SILENT = 30
"""Seconds after which the server ends the session if nothing comes of us: nobody shall send to a host that is gone."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two attempts to listen again: doubled each time, and at most."""
FIRST_LOOK, LAST_LOOK = 0.02, 1.0
"""Seconds between two looks while nobody ends our waiting: half as much again each time, and at most. The last are
spent waiting, so that it is seen if somebody does.
"""
LISTEN = "CALL aiolock_listen_1(?, ?, ?)"
HEAR = "CALL aiolock_hear_1(?, ?, ?, ?)"
HOLD = "SELECT GET_LOCK(?, 0)"


class Ear:
    """Hears what is sent on some channels. Its session holds a lock that says so: it is gone with the session.

    Args:
        address: the database.
        timeout: seconds that an answer may take.
        told: gets what was sent, after its channel's name in the database.
        missed: gets a channel on which anything may have been missed.
        say: executes a statement in another session, while ours waits.
        bell: the lock for which ours waits, and which that one holds; another one if that is another one.

    Attributes:
        channels: what shall be heard.
    """

    def __init__(
        self,
        address: Address,
        timeout: float,
        told: Callable[[str, str], None],
        missed: Callable[[str], None],
        say: Callable[..., Awaitable[Any]],
        bell: Callable[[], str],
    ) -> None:
        self.channels: Channels = Channels()
        self._address = address
        self._timeout = timeout
        self._told = told
        self._missed = missed
        self._say = say
        self._bell = bell
        self._tuned: set[str] = set()
        self._session: Session | None = None
        self._number = ""  # of this session
        self._alone = asyncio.Lock()
        self._heard: list[str] = []  # numbers of messages that are not wanted again
        self._look = 0.0  # seconds to the next, if nobody ends our waiting; 0 if they do
        self._held = True  # the bell is, so one can wait for it

    async def tune(self) -> None:
        """Listen to what shall be heard, and to nothing else.

        Raises:
            Unavailable: it cannot be done now. If that is because the session has ended, `keep` goes on with it.
        """
        try:
            await self._answer(self._alone.acquire())
            try:
                await self._tune()
            finally:
                self._alone.release()
        except Exception as error:
            raise meaning(self._address, error, self._timeout, ran=False) from error

    async def keep(self) -> None:
        """Hear until it is cancelled; if the session ends, listen again."""
        pause = FIRST_PAUSE
        while True:
            try:
                session = self._session
                if session is None or session.over:
                    await self.tune()
                else:
                    await self._hear(session)
                    pause = FIRST_PAUSE
            except Exception:
                self.hang_up()
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)

    def hang_up(self) -> None:
        """End the session without a word."""
        session, self._session = self._session, None
        self._tuned = set()
        if session is not None:
            session.end()

    async def _tune(self) -> None:
        say, again = self._say, False
        if self._session is None or self._session.over:
            session = await dial(self._address, self._timeout)
            self._number, self._heard, self._tuned = secrets.token_hex(16), [], set()
            say, again = session.ask, True
            await self._answer(session.run(f"SET SESSION wait_timeout = {SILENT}"))
            await self._answer(say(HOLD, f"aiolock ear {self._number}"))
        try:
            while self.channels.names != self._tuned:
                names = set(self.channels.names)
                added, removed = [*names - self._tuned], [*self._tuned - names]
                try:
                    await self._answer(say(LISTEN, self._number, json.dumps(added), json.dumps(removed)))
                except Exception as error:  # somebody sends to the channels before
                    if code_of(error) != INTERRUPTED:
                        raise
                else:
                    self._tuned = names
        except BaseException:
            if again:
                session.end()
            raise
        if again:
            self._session = session
            for channel in self.channels:
                self._missed(channel)

    async def _answer(self, question: Awaitable[Any]) -> Any:
        async with asyncio.timeout(self._timeout):
            return await question

    async def _hear(self, session: Session) -> None:
        """Wait once, and tell what was sent."""
        seconds = 0
        if not self._look or (self._look == LAST_LOOK and self._held):
            seconds = int(self._look) or SIGN_OF_LIFE
        else:
            await asyncio.sleep(self._look)
        try:
            async with asyncio.timeout(seconds + self._timeout):
                rows = await session.ask(HEAR, self._number, self._bell(), seconds, ",".join(self._heard))
        except Exception as error:
            if code_of(error) != INTERRUPTED:
                raise
            self._look = 0.0
            return
        self._heard = [str(number) for _, number, _, _ in rows if number is not None]
        self._look = self._next_look(rows[0][0])
        for _, _, name, message in rows if self._heard else ():
            self._told(name, message)

    def _next_look(self, got: int | None) -> float:
        """If something came and nobody ended our waiting for it, or there was nothing to wait for, look often."""
        if self._heard and (self._look or got == 0):
            return FIRST_LOOK
        held, self._held = self._held, got != 1
        if self._held and not held:
            return 0.0
        return min(LAST_LOOK, max(FIRST_LOOK, 1.5 * self._look)) if self._look or got == 1 else 0.0
