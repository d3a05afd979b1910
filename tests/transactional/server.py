"""A server in memory that carries plans out as a database does, and can be seen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiolock.backends.base import Abilities
from aiolock.backends.transactional.engine import Unavailable
from aiolock.backends.transactional.guess import GuessingEngine
from aiolock.backends.transactional.plan import NONE, Known, Plan, Stale, Verdict
from aiolock.clock import Clock
from aiolock.errors import BackendError


class FakeServer:
    """What several engines share.

    Attributes:
        now_us: its time.
        rows: its rows.
        turns: for whom a name is kept, until when, how many came meanwhile, and whether it is kept from all.
        listening: channels on which somebody listens.
        sent: what was sent: channel and message.
    """

    def __init__(self) -> None:
        self.now_us = 1_000_000_000
        self.rows: dict[str, Known] = {}
        self.turns: dict[int, tuple[int, int, int, bool]] = {}
        self.listening: set[str] = set()
        self.sent: list[tuple[str, str]] = []

    def carry_out(
        self,
        engine: GuessingEngine,
        manager: int,
        plans: Sequence[Plan],
        used_us: int,
        lag_us: int,
        version: int,
        keep_us: int,
    ) -> Verdict:
        """Do what `exchange_1` does."""
        stale: dict[int, Stale] = {}
        barred: set[int] = set()
        late = not self.now_us - lag_us <= used_us <= self.now_us
        for at, plan in enumerate(plans):
            changed = any(
                known is not None and self.rows.get(key, NONE).version != known for key, known in plan.keys.items()
            )
            kept = [tag for tag in plan.tags if self._kept(tag, manager, plan.urgent)]
            misheard = {channel for channel, heard in plan.hears.items() if heard != (channel in self.listening)}
            for tag in (tag for tag in plan.tags if kept and self._kept(tag, manager, False)):
                who, until, crowd, firm = self.turns[tag]
                self.turns[tag] = who, until, crowd + 1, firm
            if kept:
                barred.add(at)
                stale[at] = Stale({}, frozenset(misheard), max(self.turns[tag][2] for tag in kept))
            elif late or changed or misheard:
                rows = {key: self.rows[key] for key in plan.keys if key in self.rows}
                stale[at] = Stale(rows, frozenset(misheard))
        for at, plan in enumerate(plans):
            if at in stale:
                for tag in plan.tags if plan.attempts and at not in barred else ():
                    if not self._kept(tag, manager, plan.firm):
                        self.turns[tag] = manager, self.now_us + keep_us, 0, plan.firm
                continue
            messages = [(one, engine.message(plan, version, one, said, 7900)) for one, said in plan.messages]
            for key, row in plan.writes.items():
                if row is None:
                    self.rows.pop(key, None)
                else:
                    self.rows[key] = Known(version, row)
            self.sent += messages
            for tag in plan.tags:
                if self.turns.get(tag, (None,))[0] == manager:
                    del self.turns[tag]
        return Verdict(self.now_us, stale)

    def _kept(self, tag: int, manager: int, urgent: bool) -> bool:
        """Whether the name is kept for another, and from who is urgent, too."""
        who, until, _, firm = self.turns.get(tag, (manager, 0, 0, False))
        return who != manager and self.now_us < until < self.now_us + 1_000_000 and (firm or not urgent)


class FakeEngine(GuessingEngine):
    """One manager's engine.

    Args:
        server: which it asks.
        manager: its number.
        clock: its clock.

    Attributes:
        asked: the plans of each exchange.
        fails: what the next exchanges raise, or None.
        most: names of one exchange for which there is room.
        lag_us: how far the server's clock goes on between the decision and its arrival.
    """

    def __init__(self, server: FakeServer, manager: int, clock: Clock) -> None:
        super().__init__("the fake server", Abilities(store="memory"), 5.0, clock)
        self.server = server
        self.manager = manager
        self.asked: list[list[Plan]] = []
        self.fails: list[Unavailable | None] = []
        self.lag_us = 0
        self.most = 10**6

    async def exchange(self, plans: Sequence[Plan], used_us: int, lag_us: int, version: int, keep_us: int) -> Verdict:
        self.asked.append(list(plans))
        await asyncio.sleep(0)
        self.server.now_us += self.lag_us
        if self.fails and (failure := self.fails.pop(0)) is not None:
            raise failure
        if sum(len(plan.names) for plan in plans) > self.most:
            raise Unavailable(BackendError("", "no room", transient=True), full=True)
        return self.server.carry_out(self, self.manager, plans, used_us, lag_us, version, keep_us)
