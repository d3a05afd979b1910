"""Stores on a server: a manager decides on what it knows, and the server carries that out only if it is still so.

What a manager has written itself it knows, and a message brings what its receiver must know. So most requests take one
round trip. A wrong guess takes two, as reading first would. Nothing is locked between two of them: a client that is
frozen or cut off holds up nobody. Source: optimistic concurrency control (Kung, Robinson, 1981).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from abc import ABC, abstractmethod
from bisect import bisect
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from itertools import accumulate, count
from typing import Any

from ...clock import Clock
from ...errors import BackendError
from ...scripts.base import Call
from ...scripts.keys import DEAD
from ..base import Abilities
from .engine import Done, Outcome, Unavailable
from .loaded import Row
from .plan import NONE, Known, Plan, Stale, Verdict, plans_of, tag_of
from .server_time import ServerTime

REMEMBERED = 20_000
"""Keys that a manager remembers at most."""
TOGETHER = 64
"""Plans of one exchange at most: they are decided one after the other."""
NAMES, FEW = 320, 64
"""Names of one exchange at most, as the server locks each of them for as long as that takes: as many as the largest
request has; and those for which any server must have room.
"""
LAG_US = 500_000
"""By how much the time of a decision may be behind the server's, beyond four round trips."""
KEPT_US, LONGEST_US = 50_000, 900_000
"""For how long a name is kept for a manager that came too late, or for four round trips; and at most."""
TRIES = 100
"""Decisions that may come too late in a row."""
AGAIN = 0.1
"""Seconds after which work that has not ended is cancelled again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.3
"""Seconds before another attempt, while a name is kept for another manager: at least, and at most."""


class GuessingEngine(ABC):
    """What all such servers have in common. Subclasses talk to theirs.

    Args:
        address: what it is called in errors.
        abilities: what it can do.
        timeout: seconds that an answer may take.
        clock: this process's.

    Attributes:
        address, abilities: see above.
        exchanges: how often the server was asked.
        stale: how many plans came too late.
    """

    def __init__(self, address: str, abilities: Abilities, timeout: float, clock: Clock) -> None:
        self.address: str = address
        self.abilities: Abilities = abilities
        self.exchanges: int = 0
        self.stale: int = 0
        self._timeout = timeout
        self._clock = clock
        self._work: set[asyncio.Task[None]] = set()
        self._versions = count(secrets.randbits(62) | 1)  # not the server's: a number never comes back after a failover
        self._time = ServerTime(clock)
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._numbers = count()
        self._plans: list[Plan] = []  # what is not carried out yet
        self._room = NAMES
        self._more: asyncio.Event
        self._running = self._asking = False

    @abstractmethod
    async def exchange(self, plans: Sequence[Plan], used_us: int, lag_us: int, version: int, keep_us: int) -> Verdict:
        """Have the server carry out the plans whose keys are as they were read, if the time is right. Nothing stays
        open after it. A plan that came too late before has its names kept for this manager for a moment.

        Args:
            plans: what to do; without any: check whether the server can be used.
            used_us: the server's time at which they were decided.
            lag_us: by how much that may be late.
            version: of all that is written.
            keep_us: how long that moment is.

        Raises:
            Unavailable: it was not done, or perhaps.
        """

    @property
    def busy(self) -> bool:
        """See `Engine.busy`."""
        return self._asking

    def transact(self, calls: Sequence[Call[Any]], done: Done) -> None:
        """See `Engine.transact`."""
        self._done = done
        self._plans = plans_of(((next(self._numbers), call) for call in calls), self._plans)
        if self._running:
            self._more.set()
        else:
            self._running, self._more = True, asyncio.Event()
            self.start(self._run())

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let it run until it, or the manager, ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def stop(self) -> None:
        """End all that was started."""
        loop = asyncio.get_running_loop()  # of those of a loop that was closed, nothing is left to wait for
        work = {task for task in self._work if task is not asyncio.current_task() and task.get_loop() is loop}
        until = loop.time() + self._timeout
        while work and (left := until - loop.time()) > 0:
            for task in work:  # again, as asyncio.wait_for forgets it before Python 3.12 if an answer comes with it
                task.cancel()
            _, work = await asyncio.wait(work, timeout=min(left, AGAIN))
        self._plans, self._running, self._asking = [], False, False

    def forget(self) -> None:
        """The server may be another one, or an older state of it. If its time is another, it says so."""
        self._known.clear()

    async def _run(self) -> None:
        """Decide until nothing is left; without anything, ask once."""
        error: Unavailable | None = None
        try:
            if not self._plans:
                await self._ask([])
            while self._plans:
                if self._refuse():
                    continue
                plans = await self._due()
                try:
                    await self._ask(plans)
                except Unavailable as why:
                    names = sum(len(plan.names) for plan in plans)
                    fewer = max(FEW, names // 2)
                    if not why.full or names <= FEW or fewer >= self._room:
                        raise
                    self._room = fewer
        except Unavailable as why:
            error = why
        except asyncio.CancelledError:
            error = Unavailable(BackendError("", "the manager was closed", transient=True), ran=True)
        except Exception as why:
            failure = BackendError("", f"{self.address}: {type(why).__name__}: {why}", transient=True)
            failure.__cause__ = why
            error = Unavailable(failure, ran=True)
        self._running = False
        if error is not None:
            left, self._plans = self._plans, []
            self._done([call for _, call in sorted((one for plan in left for one in plan.calls), key=_number)], error)

    def _refuse(self) -> bool:
        """Answer those who name more than there is room for: they ask again, for a part each. Return if any does."""
        wide = [plan for plan in self._plans if len(plan.names) > self._room]
        calls = sorted((one for plan in wide for one in plan.calls), key=_number)
        refused = [call for _, call in calls if len(set(map(tag_of, call.keys))) > self._room]
        if refused:
            left = [one for one in calls if one[1] not in refused]
            self._plans = plans_of(left, [plan for plan in self._plans if plan not in wide])
            text = f"{self.address}: no room for {NAMES} names at once"
            self._done(refused, [BackendError(call.name, text) for call in refused])
        return bool(refused)

    async def _due(self) -> list[Plan]:
        """Wait for plans that may be tried now, and return some."""
        loop = asyncio.get_running_loop()
        while True:
            self._more.clear()
            now = loop.time()
            due = [plan for plan in self._plans if plan.due <= now][:TOGETHER]
            names = list(accumulate(len(plan.names) for plan in due))
            if due:
                return due[: max(1, bisect(names, self._room))]
            timer = loop.call_at(min(plan.due for plan in self._plans), self._more.set)
            try:
                await self._more.wait()
            finally:
                timer.cancel()

    async def _ask(self, plans: Sequence[Plan]) -> None:
        """One exchange; say what became of those that were carried out."""
        now_us, trips_us = self._time.read(), int(4e6 * self._time.trip)
        for plan in plans:
            if now_us:
                plan.decide(now_us, LAG_US + trips_us, self._known)
            else:
                plan.ask()
        asked, version = self._clock.now(), next(self._versions)
        self._asking = True
        try:
            keep_us = min(max(KEPT_US, trips_us), LONGEST_US)
            verdict = await self.exchange(plans, now_us, LAG_US + trips_us, version, keep_us)
        finally:
            self._asking = False
        self.exchanges += 1
        self._time.learn(verdict.now_us, asked)
        # The server decided after `asked`, at a time that was this much behind its clock. What ends by that clock a ttl
        # after that time ends no earlier than a ttl after this, even if its clock was set meanwhile.
        sent_at = asked - (verdict.now_us - now_us) / 1e6
        answers: list[tuple[int, Call[Any], Outcome]] = []
        over: set[Plan] = set()
        for at, plan in enumerate(plans):
            if at not in verdict.stale:
                self._wrote(plan, version)
                for (number, call), outcome in zip(plan.calls, plan.outcomes, strict=True):
                    call.sent_at = sent_at
                    answers.append((number, call, outcome))
            else:
                self._correct(plan, verdict.stale[at])
                if plan.attempts < TRIES:
                    continue
                text = f"{self.address}: other processes were faster {TRIES} times in a row"
                answers += [
                    (number, call, BackendError(call.name, text, transient=True)) for number, call in plan.calls
                ]
            over.add(plan)
        self._plans = [plan for plan in self._plans if plan not in over]
        answers.sort(key=_number)
        self._done([call for _, call, _ in answers], [outcome for _, _, outcome in answers])

    def _correct(self, plan: Plan, found: Stale) -> None:
        self.stale += 1
        plan.correct(found.misheard)
        if found.crowd:  # each of those before it reads, and writes
            pause = min(2 * found.crowd * self._time.trip, LONGEST_PAUSE)
            plan.due = asyncio.get_running_loop().time() + max(FIRST_PAUSE, pause)
            return
        for key in plan.keys:
            self._learn(key, found.known.get(key, NONE))

    def _wrote(self, plan: Plan, version: int) -> None:
        for key, row in plan.writes.items():
            self._learn(key, NONE if row is None else Known(version, row))

    def _learn(self, key: str, known: Known) -> None:
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    # Messages bring what their receiver must know: it asks for the same name at once.

    def message(self, plan: Plan, version: int, channel: str, payload: str, most: int) -> str:
        """Return what to send.

        Args:
            plan: what sends it.
            version: of what it writes.
            channel: where it goes.
            payload: what it says.
            most: characters that it may have; if it has more, it brings no rows.
        """
        rows: list[tuple[Any, ...]] = []
        for key, read in plan.keys.items():
            if read is not None and DEAD not in key:
                known = self._known.get(key, NONE)
                if key in plan.writes:
                    row = plan.writes[key]
                    known = NONE if row is None else Known(version, row)
                rows.append((key, known.version, *(known.row or ())))
        text = json.dumps([channel, payload, rows])
        return text if len(text) <= most else json.dumps([channel, payload, []])

    def heard(self, message: str) -> tuple[str, str]:
        """Learn what a message brings; return its channel and payload.

        Raises:
            ValueError: it is not one of ours.
        """
        try:
            channel, payload, rows = json.loads(message)
            for key, version, *row in rows:
                if not 0 <= version < 1 << 63:
                    raise ValueError(message)
                self._learn(str(key), Known(int(version), Row(*row)) if row else NONE)
            return str(channel), str(payload)
        except (TypeError, AttributeError, RecursionError) as error:
            raise ValueError(message) from error


def _number(numbered: tuple[Any, ...]) -> int:
    return int(numbered[0])
