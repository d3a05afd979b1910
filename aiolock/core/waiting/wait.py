"""Where an entry is on its way to a grant: its state, the answers so far, the turn of its process, and what its task
holds meanwhile.
"""

from __future__ import annotations

import asyncio
import math
import random
from enum import Enum
from logging import WARNING
from typing import TYPE_CHECKING

from ...errors import BackendError
from ...log import Line, Log
from ...scripts.outcomes import Passed, Queued, Refused
from ..holding.leases_by_task import TaskLeases
from ..holding.level import Home
from ..scheduler import NEVER

if TYPE_CHECKING:
    from ..runtime import Runtime
    from .waiter import Waiter

FIRST_PAUSE = 0.1
"""Seconds before the second attempt at most, if the server gave no verdict; doubled from attempt to attempt."""
LONGEST_PAUSE = 1.0
"""Seconds between two such attempts at most."""
STAGGER = 0.003
"""Seconds by which each process in the queue waits longer than the one before it to see if a holder has expired."""
TURN = 0.02
"""Seconds after which a turn ends: so a process on a slow connection does not delay all others."""
LONG = 5.0
"""Seconds after which it is told that a task waits while it holds something else."""
ENTANGLED: Line = Line(
    Log("aiolock.queue"),
    WARNING,
    "task %(task)r has waited %(seconds)d s for lock %(lock_name)r while it holds %(held)s: whoever takes them in "
    "another order waits for it: take all of them at once, with multi_lock(), or in one order everywhere",
    "tasks have waited for %(count)d more locks while they hold others: %(lock_names)s",
)
DEADLOCK: Line = Line(
    Log("aiolock.queue"),
    WARNING,
    "deadlock for %(seconds)d s: task %(task)r waits for lock %(lock_name)r and holds %(held)s, for which %(others)s: "
    "take all of them at once, with multi_lock(), or in one order everywhere",
    "deadlocks of tasks that wait for %(count)d more locks: %(lock_names)s",
)


class State(Enum):
    """The states, each with its meaning."""

    IDLE = "nothing is asked for: it waits for a time or a signal to ask"
    ASKING = "a request is on its way that may grant or queue it"
    TOLD = "the same, and a message says that it was granted meanwhile: the answer may not know that yet"
    QUEUED = "it is in the server's queue"
    ENDED = "it was granted, and a hold has what it got; or it was given up, and whatever it gets is undone"


IDLE, ASKING, TOLD, QUEUED, ENDED = State
ASKED = (ASKING, TOLD)


class Wait:
    """Created with the first answer that is no grant.

    Attributes:
        refusal: the last answer that said that another has the name.
        failure: why an attempt after that got no verdict.
        attempts: how often it was refused, queued or refreshed, or got no verdict; also the answer that granted it.
        failures: how often in a row it got no verdict.
        queue_number: its number in the queue, even after the server has forgotten it; 0 if it is unknown.
        free_at: clock time at which the name may be free, as far as the server has told.
        sent_at: clock time at which the request was written that was last answered "queued"; None if none was.
    """

    __slots__ = ("attempts", "failure", "failures", "free_at", "queue_number", "refusal", "sent_at")

    def __init__(self) -> None:
        self.refusal: Refused | Queued | None = None
        self.failure: BackendError | None = None
        self.attempts: int = 0
        self.failures: int = 0
        self.queue_number: int = 0
        self.free_at: float = math.inf
        self.sent_at: float | None = None

    def refused(self, refusal: Refused) -> None:
        """Another owner has it."""
        self.refusal, self.failure = refusal, None
        self.attempts += 1

    def queued(self, outcome: Queued | Passed, sent_at: float) -> None:
        """It is in the queue, says the answer to what was written at `sent_at`."""
        self.failure = None
        self.attempts += 1
        self.failures = 0
        self.sent_at, self.queue_number = sent_at, outcome.queue_number
        if isinstance(outcome, Queued):
            self.refusal, rank = outcome, outcome.rank
        else:  # the server does not say who
            self.refusal, rank = Refused(outcome.pttl, 0, ""), 1
        # A request written then takes as long to reach the server as the one that learnt this.
        pause = outcome.pttl / 1000 + 0.001 + STAGGER * (rank - 1)
        self.free_at = sent_at + pause if outcome.pttl > 0 and rank < 10 else math.inf

    def unanswered(self) -> float:
        """The server gave no verdict: return the seconds before the next attempt, a little more each time."""
        self.attempts += 1
        self.failures += 1
        return min(LONGEST_PAUSE, self.backoff) * random.uniform(0.5, 1)

    @property
    def backoff(self) -> float:
        """Seconds before the next attempt at most, after this many failures."""
        return FIRST_PAUSE * float(2 ** min(self.failures - 1, 10))


class Turn:
    """From a grant out of the server's queue to the release that passes the name on.

    A turn serves the tasks that waited when it began, so every task gets its share, whatever process it is in. Source:
    "Lock Cohorting" (Dice, Marathe, Shavit, 2012), applied to processes.

    Args:
        began: clock time at which the name came to this process.
        waiting: how many wait for it here.
        limit: the maximum of hand-offs in one turn.
    """

    __slots__ = ("_left", "_until")

    def __init__(self, began: float, waiting: int, limit: int) -> None:
        self._until = began + TURN
        self._left = min(waiting, limit)

    def hand_on(self, now: float) -> bool:
        """Count one more hand-off; return True if it is the turn of others, should any wait."""
        self._left -= 1
        return self._left < 0 or now >= self._until


class Meanwhile:
    """One wait of a task that holds something else. It begins when the name was not granted at once.

    Args:
        runtime: the manager's.
        home: of the name.
        waiter: who waits.
        holds: what its task holds.

    Attributes:
        home: see above.
        told: it was logged; or it is part of a deadlock that was.
    """

    __slots__ = ("_holds", "_runtime", "_waiter", "due", "home", "told")

    def __init__(self, runtime: Runtime, home: Home, waiter: Waiter, holds: TaskLeases) -> None:
        self.home: Home = home
        self.told: bool = False
        self.due: float = NEVER
        self._runtime = runtime
        self._waiter = waiter
        self._holds = holds

    @classmethod
    def begin(cls, runtime: Runtime, home: Home, waiter: Waiter) -> None:
        """Watch a wait, if its task holds anything else."""
        holds = runtime.leases.of(waiter.task)
        if holds is not None and waiter.queues and home not in holds.leases:
            holds.waits = meanwhile = cls(runtime, home, waiter, holds)
            runtime.scheduler.schedule(meanwhile, waiter.began + LONG)

    @property
    def over(self) -> bool:
        """Whether it waits no more."""
        return self._holds.waits is not self or self._waiter.outcome.done()

    @property
    def task(self) -> asyncio.Task[object] | None:
        """Who waits."""
        return self._waiter.task

    @property
    def name(self) -> str:
        """What it waits for."""
        return self._waiter.calls.name

    def on_due(self, now: float, late: float) -> None:
        if self.over:
            if self._holds.waits is self:
                self._holds.waits = None
            return
        held = [repr(name) for name in dict.fromkeys(lease._hold.calls.name for lease in self._holds)]
        if self.told or not held or self._runtime.observers.quiet:
            return
        circle = self._circle()
        values = {
            "lock_name": self.name,
            "task": _name_of(self),
            "seconds": round(now - self._waiter.began),
            "held": ", ".join(held),
        }
        if circle:
            values["others"] = ", ".join(f"task {_name_of(one)!r} waits, which holds the next" for one in circle[1:])
        for one in circle or [self]:
            one.told = True
        self._runtime.observers.repeats.say(DEADLOCK if circle else ENTANGLED, values, None)

    def _circle(self) -> list[Meanwhile]:
        """The waits that wait for each other, from this one on; none if this manager does not see all of them."""
        circle = [self]
        while True:
            home = circle[-1].home
            holds = [hold for hold in self._runtime.holds.values() if hold.home is home and hold.reason is None]
            tasks = {lease._task for hold in holds for lease in hold.leases}
            if not home.contention.exclusive or len(tasks) != 1:
                return []
            has = self._runtime.leases.of(tasks.pop())
            following = None if has is None else has.waits
            if following is self:
                return circle
            if not isinstance(following, Meanwhile) or following.over or following in circle:
                return []
            circle.append(following)


def _name_of(wait: Meanwhile) -> str:
    return "" if wait.task is None else wait.task.get_name()
