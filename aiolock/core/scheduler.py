"""One timer and what is due, in order: renewals, deadlines, time limits. It has no task, so no one can cancel it."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import math
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from ..clock import Clock, Timer
from ..events import WokeLate
from ..log import Log
from .observers import Observers
from .policy import MAX_EARLY
from .renewals import Renewable

logger: Log = Log("aiolock.scheduler")

STALE = 128
"""Forgotten entries that may stay in the heap, or a quarter of it if that is more."""
NEVER = math.inf
"""The due time of what is not scheduled."""
LATE = 1.0
"""Seconds a wake-up may be late before it is taken for a blocked loop."""
TOLD = 0.05
"""Seconds a wake-up may be late before it is told."""

R = TypeVar("R")


class Scheduled(Protocol):
    """Something with a next moment at which it wants to be called.

    Attributes:
        due: clock time of that moment; `math.inf` for never.
    """

    due: float

    def on_due(self, now: float, late: float) -> Renewable | None:
        """Called at `due`, by a wake-up that was `late` seconds late; may ask for a renewal."""


class Scheduler:
    """Calls whatever is due, and writes what these calls ask for, together.

    It runs in callbacks of the loop's timer. Whatever one of them raises, the next wake-up is set.

    Args:
        clock: the clock of all `due` times.
        write: writes the renewals that one wake-up has gathered.
        observers: told of late wake-ups, and at the end of each one of what has happened in it.
    """

    def __init__(
        self, clock: Clock, write: Callable[[list[Renewable]], None], observers: Observers | None = None
    ) -> None:
        self._clock = clock
        self._write = write
        self._observers = observers or Observers()
        self._running = False
        # Most items are forgotten long before they are due. So they are first kept by the second, where they leave
        # nothing behind, and put in order only when that second has come.
        self._seconds: dict[float, dict[Scheduled, float]] = {}
        self._ordered: float = -math.inf  # clock time before which it is in the heap
        self._heap: list[tuple[float, int, Scheduled, float]] = []
        self._count = 0
        self._stale = 0
        self._wake_at = NEVER
        self._timer: Timer | None = None
        self._context = contextvars.Context()  # no user's, although a user's task sets the timer

    def start(self) -> None:
        """Begin, on the running loop."""
        self._running = True
        self._wake_next()

    def stop(self) -> None:
        """End. Whatever is still scheduled is called a last time: a task may wait for it."""
        self._running = False
        self._wake_at = NEVER
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        now = self._clock.now()
        for item, _, _ in list(self._pop(math.inf)):
            _call(item, now, 0.0, [])

    def schedule(self, item: Scheduled, due: float, early: float = 0.0) -> None:
        """Call `item` at `due`, instead of whenever it was due before.

        Args:
            item: the item.
            due: clock time.
            early: seconds by which it may be sooner, if others ask the server then; `MAX_EARLY` at most.
        """
        if item.due != NEVER:
            self.forget(item)
        item.due = due
        if due >= self._ordered:
            if due == NEVER:
                return
            due //= 1.0
            items = self._seconds.get(due)
            if items is None:
                self._seconds[due] = {item: early}
            else:
                items[item] = early
        else:
            self._push(item, due, early)
        if due < self._wake_at:
            self._wake(due)

    def forget(self, item: Scheduled) -> None:
        """Do not call `item` any more."""
        due = item.due
        if due == NEVER:
            return
        item.due = NEVER
        if due >= self._ordered:
            second = due // 1.0
            items = self._seconds[second]
            del items[item]
            if not items:
                del self._seconds[second]  # with long ttls they would pile up until they come
            return
        self._stale += 1
        if self._stale > STALE and self._stale * 4 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].due == entry[0]]
            heapq.heapify(self._heap)
            self._stale = 0

    def lateness(self, now: float) -> float:
        """Seconds by which this loop has overslept its next wake-up; 0.0 if it runs in time. Works in any thread."""
        return max(0.0, now - self._wake_at)

    def _order(self, until: float) -> None:
        """Put into the heap whatever is due by then, and what is due in the same second."""
        if until < self._ordered:
            return
        for second in sorted(second for second in self._seconds if second <= until):
            for item, early in self._seconds.pop(second).items():
                self._push(item, item.due, early)
        self._ordered = until // 1.0 + 1.0 if until < NEVER else NEVER

    def _push(self, item: Scheduled, due: float, early: float) -> None:
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, item, early))

    def _wake(self, when: float) -> None:
        """Set the timer."""
        if not self._running:
            return
        if self._timer is not None:
            self._timer.cancel()
        # What is overdue has just been scheduled so: nothing is late yet.
        self._wake_at = max(when, self._clock.now())
        self._timer = self._context.run(self._clock.call_at, self._wake_at, self._run)

    def _wake_next(self) -> None:
        """Set the timer for what is due first."""
        self._wake_at = NEVER
        first = min(self._heap[0][0] if self._heap else NEVER, min(self._seconds, default=NEVER))
        if first < NEVER:
            self._wake(first)

    def _run(self) -> None:
        self._timer = None
        now = self._clock.now()
        late = self.lateness(now)
        renewals: list[Renewable] = []
        with self._observers:
            try:
                self._call_due(now, late, renewals)
            finally:
                try:
                    if renewals:
                        self._write(renewals)
                finally:
                    self._wake_next()
            if late > TOLD:
                self._observers.tell(WokeLate(late))

    def _call_due(self, now: float, late: float, renewals: list[Renewable]) -> None:
        """Call whatever is due, and what may be early with them; note what asks for a renewal."""
        for item, _, _ in self._pop(now):
            _call(item, now, late, renewals)
        if renewals:
            early_too: list[Scheduled] = []
            for item, due, early in list(self._pop(now + MAX_EARLY)):
                if due - early <= now:
                    early_too.append(item)
                else:
                    self.schedule(item, due, early)  # first, because the callee may put it off
            for item in early_too:
                _call(item, now, 0.0, renewals)

    def _pop(self, until: float) -> Iterator[tuple[Scheduled, float, float]]:
        self._order(until)
        while self._heap and self._heap[0][0] <= until:
            due, _, item, early = heapq.heappop(self._heap)
            if item.due == due:
                item.due = NEVER
                yield item, due, early
            else:
                self._stale = max(0, self._stale - 1)


def _call(item: Scheduled, now: float, late: float, renewals: list[Renewable]) -> None:
    try:
        renewal = item.on_due(now, late)
        if renewal is not None:
            renewals.append(renewal)
    except Exception:
        logger.exception("an error in a due item; the others are still watched")


class Limit(Generic[R]):
    """Fails a future at a clock time.

    Args:
        reply: must be done by then.
        error: creates the error when the time has come.
    """

    __slots__ = ("_error", "_reply", "due")

    def __init__(self, reply: asyncio.Future[R], error: Callable[[], BaseException]) -> None:
        self.due: float = NEVER
        self._reply = reply
        self._error = error

    def on_due(self, now: float, late: float) -> None:
        if not self._reply.done():
            self._reply.set_exception(self._error())


class Impatient(Protocol):
    """A waiter for an answer."""

    def overdue(self) -> None:
        """The time is over."""


class Patience:
    """Tells those that have waited for too long.

    All may wait equally long, so they are in the order in which their times end, and the timer is the first one's. It
    is not reset for each that has its answer: nearly all have it long before. Who waits puts itself into `until`, and
    wakes this if nothing is due.

    Args:
        scheduler: the timer.
        seconds: how long.

    Attributes:
        seconds: as given.
        until: those that wait, each with the clock time at which that is too long; who leaves it no longer waits.
    """

    __slots__ = ("_scheduler", "_wake_at", "due", "seconds", "until")

    def __init__(self, scheduler: Scheduler, seconds: float) -> None:
        self._scheduler = scheduler
        self.seconds: float = seconds
        self.until: dict[Impatient, float] = {}
        self._wake_at = NEVER
        self.due: float = NEVER

    def on_due(self, now: float, late: float) -> None:
        over = []
        for waiting, until in self.until.items():
            if until > now >= self._wake_at:  # a call before its time is the last one: the scheduler stops
                self.wake(until)
                break
            over.append(waiting)
        for waiting in over:
            del self.until[waiting]
        for waiting in over:
            waiting.overdue()

    def wake(self, when: float) -> None:
        """Be due then."""
        self._wake_at = when
        self._scheduler.schedule(self, when)
