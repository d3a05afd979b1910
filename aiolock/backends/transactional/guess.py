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
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any

from ...clock import Clock
from ...errors import BackendError
from ...scripts.base import Call
from ...scripts.keys import DEAD
from ..base import Abilities
from .engine import Outcome, Unavailable
from .loaded import Row
from .plan import NONE, Known, Plan, Verdict, plans_of
from .server_time import ServerTime

REMEMBERED = 20_000
"""Keys that a manager remembers at most."""
TOGETHER = 64
"""Plans of one exchange at most: the server locks each of their names for as long as that takes."""
LAG_US = 500_000
"""By how much the time of a decision may be behind the server's, beyond four round trips."""
TRIES = 100
"""Decisions that may come too late in a row."""
FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.01
"""Seconds before another attempt, from the third on: this much more each time; and at most."""


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

    @abstractmethod
    async def exchange(self, plans: Sequence[Plan], used_us: int, lag_us: int, version: int) -> Verdict:
        """Have the server carry out the plans whose keys are as they were read, if the time is right. Nothing stays
        open after it. A plan that came too late before has its names kept for this manager for a moment.

        Args:
            plans: what to do; without any: look whether the server can be used.
            used_us: the server's time at which they were decided.
            lag_us: by how much that may be late.
            version: of all that is written.

        Raises:
            Unavailable: it was not done, or perhaps.
        """

    def transact(self, calls: Sequence[Call[Any]], done: Callable[[Sequence[Outcome] | Unavailable], None]) -> None:
        """See `Engine.transact`."""
        self.start(self._transact(calls, done))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let it run until it, or the manager, ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def stop(self) -> None:
        """End all that was started."""
        loop = asyncio.get_running_loop()  # of those of a loop that was closed, nothing is left to wait for
        work = [task for task in self._work if task is not asyncio.current_task() and task.get_loop() is loop]
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work, timeout=self._timeout)

    def forget(self) -> None:
        """The server may be another one, or an older state of it. If its time is another, it says so."""
        self._known.clear()

    async def _transact(
        self, calls: Sequence[Call[Any]], done: Callable[[Sequence[Outcome] | Unavailable], None]
    ) -> None:
        result: Sequence[Outcome] | Unavailable
        try:
            result = await self._decide(calls)
        except Unavailable as why:
            result = why
        except asyncio.CancelledError:
            result = Unavailable(BackendError("", "the manager was closed", transient=True), ran=True)
        except Exception as error:
            failure = BackendError("", f"{self.address}: {type(error).__name__}: {error}", transient=True)
            failure.__cause__ = error
            result = Unavailable(failure, ran=True)
        done(result)

    async def _decide(self, calls: Sequence[Call[Any]]) -> Sequence[Outcome]:
        outcomes: dict[int, Outcome] = {}
        left = plans_of(calls)
        if not left:
            await self.exchange([], 0, 0, 0)
        ran = False
        while left:
            plans, later = left[:TOGETHER], left[TOGETHER:]
            now_us, most = self._time.read(), max(plan.attempts for plan in plans)
            if most == TRIES:
                text = f"{self.address}: other processes were faster {TRIES} times in a row"
                raise Unavailable(BackendError("", text, transient=True), ran)
            if most > 1:
                await asyncio.sleep(min(FIRST_PAUSE * most, LONGEST_PAUSE))
            for plan in plans:
                if now_us:
                    plan.decide(now_us, self._known)
                else:
                    plan.ask()
            asked, version = self._clock.now(), next(self._versions)
            lag_us = LAG_US + int(4e6 * self._time.trip)
            try:
                verdict = await self.exchange(plans, now_us, lag_us, version)
            except Unavailable as why:
                why.ran = why.ran or ran
                raise
            self.exchanges += 1
            self._time.learn(verdict.now_us, asked)
            # The server decided after `asked`, at a time that was this much behind its clock. What ends by that clock a
            # ttl after that time ends no earlier than a ttl after this, even if its clock was set meanwhile.
            sent_at = asked - (verdict.now_us - now_us) / 1e6
            again = []
            for at, plan in enumerate(plans):
                if at in verdict.stale:
                    self._correct(plan, verdict, at)
                    again.append(plan)
                    continue
                ran = True
                for (place, call), outcome in zip(plan.calls, plan.outcomes, strict=True):
                    call.sent_at = min(call.sent_at, sent_at)
                    outcomes[place] = outcome
                self._wrote(plan, version)
            left = again + later
        return [outcomes[place] for place in range(len(calls))]

    def _correct(self, plan: Plan, verdict: Verdict, at: int) -> None:
        self.stale += 1
        found = verdict.stale[at]
        for key in plan.keys:
            self._learn(key, found.known.get(key, NONE))
        plan.correct(found.misheard)

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
        for key in plan.keys:
            if DEAD not in key:
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
