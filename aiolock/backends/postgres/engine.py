"""PostgreSQL: one call of a function for each exchange, and a session of its own that listens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from ...clock import Clock, SystemClock
from ...errors import BackendError
from ...log import Log
from ...scripts import interpreter
from ..base import Abilities
from ..transactional.engine import Unavailable
from ..transactional.guess import GuessingEngine
from ..transactional.loaded import Row
from ..transactional.plan import Known, Plan, Stale, Verdict, number_of
from .address import address_of
from .ear import Ear, ear_of, is_shared, name_of
from .session import SCHEMA, Session, dial, meaning

logger: Log = Log("aiolock.redis")

SENT = 7900
"""Bytes of a message at most; PostgreSQL takes 8000."""
KEPT_US = 50_000
"""For how long a name is kept for the manager that came too late."""
SWEEP = 2000
"""Rows that this manager writes between two sweeps."""
EXCHANGE = "SELECT * FROM aiolock.exchange_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"


class PostgresEngine(GuessingEngine):
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
        interpreter.load("locks in PostgreSQL run")
        self._at = address_of(url)
        abilities = Abilities(messages=pushes, store="PostgreSQL")
        super().__init__(self._at.name, abilities, timeout, clock or SystemClock())
        self._number = secrets.randbits(62)
        self._session: Session | None = None
        self._ear: Ear | None = None
        self._written = 0

    async def open(self, deliver: Callable[[str, str | None], None]) -> None:
        """See `Engine.open`."""
        self._deliver = deliver
        try:
            self._session = await self._connect()
            if not self._session.equipped:
                await self._equip(self._session)
            if self.abilities.messages:
                self._ear = Ear(self._at, self._timeout, self._told)
                await self._ear.tune()
                self.start(self._ear.keep())
        except BaseException as error:
            await self.aclose()
            if isinstance(error, Exception):
                why = meaning(self._at, error, self._timeout, ran=False)
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
                    await session.link.close(timeout=1.0)
                except Exception:
                    with contextlib.suppress(Exception):  # its loop may be closed
                        session.link.terminate()

    async def _connect(self) -> Session:
        """Connect anew: to another server, for all that is known."""
        self.forget()
        return await dial(self._at, self._timeout)

    async def _equip(self, session: Session) -> None:
        """Make what it needs, once however many begin with an empty database."""
        alone = f"SELECT pg_advisory_xact_lock({number_of('schema')})"
        await session.link.execute(f"BEGIN; {alone}; {SCHEMA.read_text(encoding='utf-8')}; COMMIT")

    async def exchange(self, plans: Sequence[Plan], used_us: int, lag_us: int, version: int) -> Verdict:
        """See `GuessingEngine.exchange`."""
        ran = False
        try:
            async with asyncio.timeout(self._timeout):
                session = self._session = self._session or await self._connect()
                ran = not session.over  # if it ended when nobody looked, that is told now: much may have changed
                rows = await session.link.fetch(
                    EXCHANGE, used_us, lag_us, version, self._number, *self._words(plans, version)
                )
        except BaseException as error:
            ended, self._session = self._session, None
            if ended is not None:
                ended.link.terminate()
            if not isinstance(error, Exception):
                raise
            why = meaning(self._at, error, self._timeout, ran)
            why.lost = ended is not None and not isinstance(error, TimeoutError)
            raise why from why.__cause__
        verdict = _verdict(rows, plans)
        self._written += sum(len(plan.writes) for plan in plans)
        if self._written >= SWEEP:
            self._written = 0
            self.start(self._sweep())
        return verdict

    async def _sweep(self) -> None:
        """Delete rows that have expired, in a session of its own: no request waits for that."""
        try:
            session = await dial(self._at, self._timeout)
            try:
                await session.link.execute("SELECT aiolock.sweep_1()", timeout=self._timeout)
                await session.link.close(timeout=1.0)
            finally:
                session.link.terminate()
        except Exception as error:
            logger.warning("%s: rows that have expired could not be deleted: %s", self._at.name, error)

    def _words(self, plans: Sequence[Plan], version: int) -> list[Any]:
        """The arguments of `exchange_1` from `tags` on."""
        tags = sorted((tag, at) for at, plan in enumerate(plans) for tag in plan.tags)
        keys: list[tuple[str, int, int, str | None, str | None, int | None]] = []
        late: list[int] = []
        ends: list[int] = []
        tell: list[tuple[int, str, str]] = []
        ears: list[tuple[int, int, bool, bool]] = []
        for at, plan in enumerate(plans):
            for key, known in plan.keys.items():
                if key not in plan.writes:
                    keys.append((kept(key), known, at, None, None, None))
                elif (row := plan.writes[key]) is None:
                    keys.append((kept(key), known, at, "", None, None))
                else:
                    keys.append((kept(key), known, at, row.kind, row.as_json(), row.expires))
            if plan.attempts:
                late.append(at)
            if plan.ends:
                ends.append(at)
            for channel, payload in plan.messages:
                tell.append((at, name_of(channel), self.message(plan, version, channel, payload, SENT)))
            for channel, heard in plan.hears.items():
                ears.append((at, ear_of(name_of(channel)), is_shared(channel), heard))
        found = {"late": late, "ends": ends, "tell": tell, "ears": ears}
        more = (
            json.dumps({"keep": KEPT_US} | {what: of for what, of in found.items() if of})
            if any(found.values())
            else None
        )
        columns = zip(*sorted(keys), strict=True) if keys else ((),) * 6
        return [[tag for tag, _ in tags], [at for _, at in tags], *map(list, columns), more]

    # Messages.

    def listen(self, channel: str, done: Callable[[Unavailable | BackendError | None], None]) -> None:
        """See `Engine.listen`."""
        assert self._ear is not None
        self._ear.add(channel)
        self.start(self._tune(self._ear, done))

    def unlisten(self, channel: str) -> None:
        """See `Engine.unlisten`."""
        if self._ear is not None:
            self._ear.remove(channel)
            self.start(self._tune(self._ear, lambda _: None))

    async def _tune(self, ear: Ear, done: Callable[[Unavailable | BackendError | None], None]) -> None:
        try:
            await ear.tune()
        except Unavailable as why:
            done(why)
        else:
            done(None)

    def _told(self, channel: str, message: str | None) -> None:
        if message is None:
            self._deliver(channel, None)
            return
        with contextlib.suppress(ValueError):  # whoever may connect may send anything
            to, payload = self.heard(message)
            if to == channel:
                self._deliver(channel, payload)


def _verdict(rows: Sequence[Any], plans: Sequence[Plan]) -> Verdict:
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
            channels = (channel for channel in plans[at].hears if ear_of(name_of(channel)) == int(key))
            misheard.setdefault(at, set()).update(channels)
        elif kind == "~":
            crowd[at] = number
        elif key is not None:
            found[shown(key)] = Known(number, Row.of_json(kind, value, expires))
    stale = {at: Stale(found, frozenset(misheard.get(at, ())), crowd.get(at, 0)) for at, found in known.items()}
    return Verdict(now_us, stale)


def kept(key: str) -> str:
    """A key without NUL, which PostgreSQL has not. Names have no percent sign that is not written %25."""
    return key.replace("\0", "%00")


def shown(key: str) -> str:
    """The key again."""
    return key.replace("%00", "\0")
