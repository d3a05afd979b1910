"""A database whose rows are locks, and the engine with which a process reaches it."""

from __future__ import annotations

import asyncio
import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, cast

from aiolock.backends.transactional.channels import Channels, name_of
from aiolock.backends.transactional.engine import Unavailable
from aiolock.backends.transactional.loaded import Loaded
from aiolock.backends.transactional.plan import Plan
from aiolock.backends.transactional.served import Ear, ServedEngine, kept
from aiolock.clock import Clock
from aiolock.errors import BackendError
from aiolock.scripts import lock
from aiolock.scripts.base import as_text
from aiolock.scripts.store import Store
from tests.support import locks
from tests.transactional.server import FakeServer

from .network import Connection, Connector
from .process import Process
from .truth import RedisTruth
from .wire import Line, ObjectServer, Request
from .world import World

PAUSE = 0.05
"""Seconds between two attempts to listen."""


class RowServer(ObjectServer):
    """One server.

    Args:
        world, kill, around: see `Server`.
    """

    def __init__(self, world: World, kill: bool, around: Callable[[str, int, Process], None]) -> None:
        super().__init__(world, kill, around)
        self.database = FakeServer()
        self.truth = RowTruth(self)
        self._ears: defaultdict[int, set[str]] = defaultdict(set)  # by connection: channels

    def loaded(self) -> Loaded:
        """What there is now."""
        rows = {key: known.row for key, known in self.database.rows.items() if known.row is not None}
        return Loaded(self.wall_us(), rows, lambda channel: channel in self.database.listening)

    def forget(self) -> None:
        self.database.rows.clear()
        self.database.turns.clear()

    def disconnected(self, connection: Connection) -> None:
        super().disconnected(connection)
        self._ears.pop(connection.id, None)
        self._listen()

    def _listen(self) -> None:
        self.database.listening = set().union(*self._ears.values())

    def answer(self, connection: Connection, request: Request) -> object:
        """See `ObjectServer.answer`."""
        if self.refuses:
            return RuntimeError(self.refuses)
        if request.what == "listen":
            self._ears[connection.id] = set(request.words)
            self._listen()
            return None
        engine, plans, *more = request.words
        database = self.database
        database.now_us = self.wall_us()
        forced = [call.keys[0] for plan in plans for _, call in plan.calls if call.script is lock.FORCE_RELEASE]
        before = {key: locks.of_key(self.loaded(), key) for key in forced}
        verdict = database.carry_out(engine, engine.manager, plans, *more)
        self._notice(plans, verdict.stale, before)
        sent, database.sent = database.sent, []
        for channel, message in sent:
            for id, channels in list(self._ears.items()):
                if channel in channels:
                    self.push(id, Request("message", (channel, message)))
        return verdict

    def _notice(self, plans: Sequence[Plan], stale: Any, before: dict[str, Any]) -> None:
        """Whom a release has ended, and who lost a lock to force, if only for a moment."""
        done = [plan for at, plan in enumerate(plans) if at not in stale]
        holders = {key: (held.holder, held.fence) for key, held in before.items()}
        for (_, call), reply in [one for plan in done for one in zip(plan.calls, plan.outcomes, strict=True)]:
            said = str(as_text(reply)).split()
            if call.script.name == "release" and said[0] == "released":
                self.released.add(call.args[0])
            if call.script is lock.ACQUIRE and said[0] == "granted":
                holders[call.keys[0]] = str(call.args[0]), int(said[1])
            if call.script is lock.FORCE_RELEASE and reply == 1:
                self.forced(*holders[call.keys[0]])


class RowTruth(RedisTruth):
    """The same keys, in rows.

    Args:
        server: where they are.
    """

    def __init__(self, server: RowServer) -> None:
        self._server = server

    @property
    def _store(self) -> Store:  # type: ignore[override]
        return self._server.loaded()

    def known(self) -> str:
        return ""  # who closes while its request is under way is forgotten with its next row


class SimulatedDatabase(ServedEngine[Line]):
    """A process's link to that server.

    Args:
        connector: opens connections.
        server: where they lead.
        process: whose it is.
        patience: seconds without an answer after which a connection is given up.
    """

    def __init__(self, connector: Connector, server: RowServer, process: Process, patience: float) -> None:
        super().__init__("the simulation", "the simulation", 7900, patience, True, cast(Clock, process.clock))
        self.manager = process.number
        self.connector = connector
        self.server = server
        self._plans: list[Plan]

    @property
    def up(self) -> bool:
        """Whether it is connected, and nothing is on its way."""
        return self._session is not None and not self._running and not self._plans

    async def dial(self) -> Line:
        """See `ServedEngine.dial`."""
        try:
            return await Line.open(self.connector, self.server)
        except OSError as error:
            raise self.meaning(error, ran=False) from error

    async def equip(self, session: Line) -> None:
        """See `ServedEngine.equip`: it is."""

    async def ask(self, session: Line, *words: Any) -> Sequence[Sequence[Any]]:
        """See `ServedEngine.ask`."""
        used_us, lag_us, version, _, plans, keep_us = words
        verdict = await session.ask(self._timeout, "exchange", self, plans, used_us, lag_us, version, keep_us)
        rows: list[Sequence[Any]] = [(-1, None, None, None, None, verdict.now_us)]
        for at, stale in verdict.stale.items():
            rows.append((at, None, "~" if stale.crowd else None, None, None, stale.crowd))
            rows += [(at, self.named(channel), "!", None, None, None) for channel in stale.misheard]
            for key, (number, row) in stale.known.items():
                rows.append((at, kept(key), row.kind, row.as_json(), row.expires, number))
        return rows

    def _words(self, plans: Sequence[Plan], version: int, keep_us: int) -> list[Any]:
        return [[_copied(plan) for plan in plans], keep_us]

    async def sweep(self, session: Line) -> None:
        """See `ServedEngine.sweep`: what has expired is no trouble."""

    def ear(self) -> Ear:
        """See `ServedEngine.ear`."""
        return SimulatedEar(self)

    def tag(self, number: int) -> tuple[int, ...]:
        """See `ServedEngine.tag`."""
        return (number,)

    def ear_words(self, channel: str) -> tuple[int | str, ...] | None:
        """See `ServedEngine.ear_words`."""
        return (channel,)

    def named(self, channel: str) -> str:
        """See `ServedEngine.named`."""
        return name_of(channel)

    def meaning(self, error: Exception, ran: bool) -> Unavailable:
        """See `ServedEngine.meaning`."""
        if isinstance(error, Unavailable):
            return error
        why = Unavailable(BackendError("", f"the simulation: {error}", transient=True), ran=ran)
        why.__cause__ = error
        return why


def _copied(plan: Plan) -> Plan:
    """As it is sent: later changes of it are not."""
    sent = copy.copy(plan)
    for name in ("calls", "keys", "writes", "messages", "hears", "outcomes"):
        setattr(sent, name, copy.copy(getattr(plan, name)))
    return sent


class SimulatedEar:
    """What listens, in a connection of its own.

    Args:
        engine: told of what it hears.
    """

    def __init__(self, engine: SimulatedDatabase) -> None:
        self._engine = engine
        self.channels: Channels = Channels()
        self._line: Line | None = None
        self._ended = asyncio.Event()
        self._alone = asyncio.Lock()

    async def tune(self) -> None:
        """See `Ear.tune`."""
        engine = self._engine
        try:
            async with self._alone:
                again = self._line is None or self._line.over
                if again:
                    self._ended = asyncio.Event()
                    ended = self._ended
                    self._line = await Line.open(
                        engine.connector, engine.server, self._heard, lambda _: ended.set()
                    )  # fmt: skip
                assert self._line is not None
                await self._line.ask(engine._timeout, "listen", *sorted(self.channels))
        except (OSError, RuntimeError) as error:
            raise engine.meaning(error, ran=False) from error
        if again:
            for channel in sorted(self.channels):
                engine.missed(channel)

    def _heard(self, request: Request) -> None:
        channel, message = request.words
        self._engine.told(name_of(channel), message)

    async def keep(self) -> None:
        """See `Ear.keep`."""
        while True:
            if self._line is not None and not self._line.over:
                await self._ended.wait()
            try:
                await self.tune()
            except Unavailable:
                await asyncio.sleep(PAUSE)

    def hang_up(self) -> None:
        """See `Ear.hang_up`."""
        line, self._line = self._line, None
        if line is not None:
            line.hang_up()
