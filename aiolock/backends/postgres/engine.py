"""PostgreSQL: one call of a function for each exchange, and a session of its own that listens."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...clock import Clock
from ...errors import ConfigurationError
from ...scripts import interpreter
from ..transactional.channels import ear_of, hold_of, name_of, number_of
from ..transactional.engine import Unavailable
from ..transactional.held import is_lock
from ..transactional.served import ServedEngine
from .address import address_of
from .ear import Ear
from .session import SCHEMA, Session, dial, meaning

if TYPE_CHECKING:
    from ..stores import Database

SENT = 7900
"""Bytes of a message at most; PostgreSQL takes 8000."""
EXCHANGE = "SELECT aiolock.exchange_1($1, $2, $3, $4, $5, $6, $7, $8)"


class PostgresEngine(ServedEngine[Session]):
    """A database, for all processes that reach it.

    Args:
        source: its URL; or a pool of asyncpg or an engine of SQLAlchemy, whose settings are used.
        timeout: seconds that an answer may take.
        pushes: listen; otherwise waiters poll, and there is one session.
        clock: this process's.

    Raises:
        ConfigurationError: the URL names no database; or lupa, which runs the scripts, is not installed.
    """

    def __init__(
        self, source: str | Database, timeout: float = 5.0, pushes: bool = True, clock: Clock | None = None
    ) -> None:
        interpreter.load("locks in PostgreSQL run")
        self._at = address_of(source)
        super().__init__(self._at.name, "PostgreSQL", SENT, timeout, pushes, clock)

    async def open(self, deliver: Callable[[str, str | None], None]) -> None:
        """See `Engine.open`. What listens must be in the same database: in another one it would hear nothing."""
        await super().open(deliver)
        if self._at.listen is None or not isinstance(self._ear, Ear) or self._session is None:
            return
        try:
            async with self._ear.marked() as number:
                other = await self._session.link.fetchval("SELECT pg_try_advisory_xact_lock($1)", number)
            if other:
                text = f"{self._at.name} and what its listen= says, {self._at.listen.name}, are not the same database"
                raise Unavailable(ConfigurationError("", text))
        except BaseException as error:
            await self.aclose()
            if isinstance(error, Exception):
                why = self.meaning(error, ran=False)
                raise why from why.__cause__
            raise

    async def dial(self) -> Session:
        """See `ServedEngine.dial`. It may be a pooler, if nothing listens through it."""
        return await dial(self._at, self._timeout, pooled=self._at.listen is not None or not self.abilities.messages)

    async def equip(self, session: Session) -> None:
        """See `ServedEngine.equip`."""
        alone = f"SELECT pg_advisory_xact_lock({number_of('schema')})"
        await session.link.execute(f"BEGIN; {alone}; {SCHEMA.read_text(encoding='utf-8')}; COMMIT")

    async def ask(self, session: Session, *words: int | str | None) -> Sequence[Sequence[Any]]:
        """See `ServedEngine.ask`."""
        rows: Sequence[Sequence[Any]] = json.loads(await session.link.fetchval(EXCHANGE, *words))
        return rows

    async def sweep(self, session: Session) -> None:
        """See `ServedEngine.sweep`."""
        await session.link.execute("SELECT aiolock.sweep_1()", timeout=self._timeout)

    def ear(self) -> Ear:
        """See `ServedEngine.ear`."""
        return Ear(self._at.listen or self._at, self._timeout, self.told, self.missed)

    def tag(self, number: int) -> tuple[int, ...]:
        """See `ServedEngine.tag`."""
        return (number,)

    def ear_words(self, channel: str) -> tuple[int | str, ...] | None:
        """See `ServedEngine.ear_words`."""
        return int(self.named(channel)), int(is_lock(channel))

    def named(self, channel: str) -> str:
        """See `ServedEngine.named`."""
        return str(hold_of(channel) if is_lock(channel) else ear_of(name_of(channel)))

    def meaning(self, error: Exception, ran: bool) -> Unavailable:
        """See `ServedEngine.meaning`."""
        return meaning(self._at, error, self._timeout, ran)
