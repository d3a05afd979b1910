"""MariaDB and MySQL: one call of a procedure for each exchange, and a session of its own that listens."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from ...clock import Clock
from ...errors import BackendError
from ...scripts import interpreter
from ..transactional.channels import name_of
from ..transactional.engine import Unavailable
from ..transactional.held import is_lock
from ..transactional.served import ServedEngine
from .address import address_of
from .ear import Ear
from .session import DEADLOCK, SCHEMA, Session, code_of, dial, meaning

GATES = 1000
"""What names are divided into: those of one are decided one after the other."""
SENT = 60_000
"""Characters of a message at most."""
DEADLOCKS = 3
"""How often an exchange is made again at once."""
EXCHANGE = "CALL aiolock_exchange_1(?, ?, ?, ?, ?, ?, ?, ?)"
TURN = "SELECT GET_LOCK(?, ?)"


class MySQLEngine(ServedEngine[Session]):
    """A database, for all processes that reach it.

    Args:
        url: its address.
        timeout: seconds that an answer may take.
        pushes: listen; otherwise waiters poll, and there is one session.
        clock: this process's.

    Raises:
        ConfigurationError: the URL names no database; or lupa, which runs the scripts, is not installed.
    """

    def __init__(self, url: str, timeout: float = 5.0, pushes: bool = True, clock: Clock | None = None) -> None:
        interpreter.load("locks in MariaDB or MySQL run")
        self._at = address_of(url)
        super().__init__(self._at.name, "the database", SENT, timeout, pushes, clock)
        self._bell = ""

    async def dial(self) -> Session:
        """See `ServedEngine.dial`."""
        return await dial(self._at, self._timeout)

    async def _connect(self) -> Session:
        session = await super()._connect()
        if self.abilities.messages:  # the other session waits for it without success
            bell = f"aiolock bell {secrets.token_hex(16)}"
            await session.ask(TURN, bell, 0)
            self._bell = bell  # not before: else that one may have it
        return session

    async def equip(self, session: Session) -> None:
        """See `ServedEngine.equip`."""
        turn = f"aiolock schema {self._at.database}"[:64]
        await session.ask(TURN, turn, int(self._timeout))
        _, _, statements = SCHEMA.read_text(encoding="utf-8").partition("DELIMITER $$\n")
        for statement in statements.split("$$\n")[:-1]:
            await session.run(statement)
        await session.ask("SELECT RELEASE_LOCK(?)", turn)

    async def ask(self, session: Session, *words: int | str | None) -> Sequence[Sequence[Any]]:
        """See `ServedEngine.ask`."""
        for _ in range(DEADLOCKS):
            try:
                return await session.ask(EXCHANGE, *words)
            except Exception as error:
                if code_of(error) != DEADLOCK:
                    raise
        return await session.ask(EXCHANGE, *words)

    async def sweep(self, session: Session) -> None:
        """See `ServedEngine.sweep`."""
        await session.ask("CALL aiolock_sweep_1()")

    def ear(self) -> Ear:
        """See `ServedEngine.ear`."""
        return Ear(self._at, self._timeout, self.told, self.missed, self._say, lambda: self._bell)

    def tag(self, number: int) -> tuple[int, ...]:
        """See `ServedEngine.tag`."""
        return number % GATES, number

    def ear_words(self, channel: str) -> tuple[int | str, ...] | None:
        """See `ServedEngine.ear_words`. No transaction has a lock of ours."""
        return None if is_lock(channel) else (name_of(channel),)

    def named(self, channel: str) -> str:
        """See `ServedEngine.named`."""
        return name_of(channel)

    def meaning(self, error: Exception, ran: bool) -> Unavailable:
        """See `ServedEngine.meaning`."""
        return meaning(self._at, error, self._timeout, ran)

    async def _say(self, statement: str, *values: object) -> Any:
        """Have something done in the session of the exchanges. If there is none, the next of those makes it."""
        if self._session is None:
            raise Unavailable(BackendError("", f"{self.address}: the connection was lost", transient=True))
        return await self._session.ask(statement, *values)
