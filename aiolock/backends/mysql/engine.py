"""MariaDB and MySQL: one call of a procedure for each exchange, and a session of its own that listens."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

from ...clock import Clock
from ...errors import BackendError
from ...scripts import interpreter
from ..transactional.channels import name_of
from ..transactional.engine import Unavailable
from ..transactional.held import is_lock
from ..transactional.plan import Plan
from ..transactional.served import KEPT_US, ServedEngine, kept
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
        super().__init__(self._at.name, "the database", timeout, pushes, clock)
        self._bell = ""

    async def dial(self) -> Session:
        """See `ServedEngine.dial`."""
        return await dial(self._at, self._timeout)

    async def _connect(self) -> Session:
        session = await super()._connect()
        if self.abilities.messages:  # the other session waits for it in vain
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

    async def ask(
        self, session: Session, plans: Sequence[Plan], used_us: int, lag_us: int, version: int
    ) -> Sequence[Sequence[Any]]:
        """See `ServedEngine.ask`."""
        words = self._words(plans, version)
        for _ in range(DEADLOCKS):
            try:
                return await session.ask(EXCHANGE, used_us, lag_us, version, self._number, *words)
            except Exception as error:
                if code_of(error) != DEADLOCK:
                    raise
        return await session.ask(EXCHANGE, used_us, lag_us, version, self._number, *words)

    async def sweep(self, session: Session) -> None:
        """See `ServedEngine.sweep`."""
        await session.ask("CALL aiolock_sweep_1()")

    def ear(self) -> Ear:
        """See `ServedEngine.ear`."""
        return Ear(self._at, self._timeout, self.told, self._say, lambda: self._bell)

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

    def _words(self, plans: Sequence[Plan], version: int) -> list[str | None]:
        """The arguments of the procedure from `tags` on."""
        tags = sorted((tag % GATES, tag, at) for at, plan in enumerate(plans) for tag in plan.tags)
        keys: list[tuple[str, int, int]] = []
        written: list[tuple[str, str, str, int | None, int]] = []
        gone: list[tuple[str, int]] = []
        late: list[int] = []
        ends: list[int] = []
        tell: list[tuple[int, str, str]] = []
        ears: list[tuple[int, str, int]] = []
        for at, plan in enumerate(plans):
            keys += [(kept(key), known, at) for key, known in plan.keys.items()]
            for key, row in plan.writes.items():
                if row is None:
                    gone.append((kept(key), at))
                else:
                    written.append((kept(key), row.kind, row.as_json(), row.expires, at))
            if plan.attempts:
                late.append(at)
            if plan.ends:
                ends.append(at)
            for channel, payload in plan.messages:
                tell.append((at, name_of(channel), self.message(plan, version, channel, payload, SENT)))
            ears += [(at, name_of(one), int(heard)) for one, heard in plan.hears.items() if not is_lock(one)]
        found = {"gone": sorted(gone), "ends": ",".join(map(str, ends)), "tell": tell, "ears": ears}
        more: dict[str, object] = {what: of for what, of in found.items() if of}
        if late:
            more |= {"late": ",".join(map(str, late)), "keep": KEPT_US}
        return [_json(tags), _json(sorted(keys)), _json(sorted(written)), _json(more)]


def _json(value: Any) -> str | None:
    return json.dumps(value, ensure_ascii=False) if value else None
