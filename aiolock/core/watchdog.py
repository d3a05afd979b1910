"""One timer and what is due, in order: renewals, deadlines, time limits. It has no task, so nobody can cancel it."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import math
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from ..backends.base import Backend
from ..clock import Clock, Timer
from ..errors import BackendError
from ..log import Log
from ..scripts.base import Part
from .calls import Batch
from .policy import MAX_EARLY

R = TypeVar("R")

logger: Log = Log("aiolock.watchdog")

CHUNK = 320
"""Renewals in one request: 10,000 leases in 32 of them, each a few milliseconds of the server's time."""
CHUNK_KEYS = 2000
"""Keys in one request, where a renewal has many."""
STALE = 128
"""Entries of what was forgotten that may stay in the heap, or a quarter of it if that is more."""
SECONDS = 64
"""How many seconds' buckets are kept before empty ones are searched for and dropped."""
NEVER = math.inf
"""The due time of what is not scheduled."""
LATE = 1.0
"""Seconds a wake-up may be late before it is worth a word in the log."""


class Watched(Protocol):
    """Something with a next moment at which it wants to be called.

    Attributes:
        due: clock time of that moment; `math.inf` for never.
    """

    due: float

    def on_due(self, now: float, late: float) -> Renewable | None:
        """Called at `due`, by a wake-up that was `late` seconds late; may ask for a renewal."""


class Renewable(Protocol):
    """Something that asks the server together with others: a hold to be extended, an entry in a queue to be kept."""

    def part(self) -> tuple[Batch, Part]:
        """How to make one request of many such, and this one's line in it."""

    def judged(self, outcome: Any, sent_at: float) -> None:
        """The server's verdict on a request written at `sent_at`."""

    def unknown(self, error: BackendError) -> None:
        """No verdict: try again."""


Asked = tuple[Renewable, Part]
"""Who asked, and its part of the request."""


class Watchdog:
    """Wakes whatever is due and writes the renewals it asks for, in batches.

    It runs in callbacks of the loop's timer. Whatever is raised in one, the next wake-up is set.

    Args:
        clock: the clock of all `due` times.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._backend: Backend | None = None
        # Most of what is scheduled is forgotten long before it is due. So it is kept by the second at first, where it
        # leaves nothing behind, and put in order only when that second has come.
        self._seconds: dict[float, dict[Watched, float]] = {}
        self._sweep_at = SECONDS
        self._ordered: float = -math.inf  # clock time before which it is in the heap
        self._heap: list[tuple[float, int, Watched, float]] = []
        self._count = 0
        self._stale = 0
        self._wake_at = NEVER
        self._timer: Timer | None = None
        self._context = contextvars.Context()  # no user's, though a user's task sets the timer

    def start(self, backend: Backend) -> None:
        """Begin, on the running loop."""
        self._backend = backend
        self._wake_next()

    def stop(self) -> None:
        """End. Whatever was still scheduled is called a last time: somebody may wait for it."""
        self._backend = None
        self._wake_at = NEVER
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        now = self._clock.now()
        for item, _, _ in list(self._pop(math.inf)):
            _ask(item, now, 0.0, {})

    def schedule(self, item: Watched, due: float, early: float = 0.0) -> None:
        """Call `item` at `due`, instead of whenever it was due before.

        Args:
            item: what.
            due: clock time.
            early: seconds by which it may be sooner, where others ask the server then; `MAX_EARLY` at most.
        """
        if item.due != NEVER:
            self.forget(item)
        item.due = due
        if due >= self._ordered:
            if due == NEVER:
                return
            second = due // 1.0
            try:
                self._seconds[second][item] = early
                return  # the wake-up of this second is set
            except KeyError:
                self._sweep()
                self._seconds[second] = {item: early}
                due = second
        else:
            self._push(item, due, early)
        if due < self._wake_at:
            self._wake(due)

    def forget(self, item: Watched) -> None:
        """Call `item` no more."""
        due = item.due
        if due == NEVER:
            return
        item.due = NEVER
        if due >= self._ordered:
            del self._seconds[due // 1.0][item]
            return
        self._stale += 1
        if self._stale > STALE and self._stale * 4 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].due == entry[0]]
            heapq.heapify(self._heap)
            self._stale = 0

    def lateness(self, now: float) -> float:
        """Seconds by which this loop has overslept its next wake-up; 0.0 if it runs in time. Asked by any thread."""
        return max(0.0, now - self._wake_at)

    def _sweep(self) -> None:
        """Drop the seconds of which all was forgotten: with long ttls they would pile up until they come."""
        if len(self._seconds) >= self._sweep_at:
            self._seconds = {second: items for second, items in self._seconds.items() if items}
            self._sweep_at = max(SECONDS, 2 * len(self._seconds))

    def _order(self, until: float) -> None:
        """Put into the heap whatever is due by then, and what is due in the same second."""
        if until < self._ordered:
            return
        for second in sorted(second for second in self._seconds if second <= until):
            for item, early in self._seconds.pop(second).items():
                self._push(item, item.due, early)
        self._ordered = until // 1.0 + 1.0 if until < NEVER else NEVER

    def _push(self, item: Watched, due: float, early: float) -> None:
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, item, early))

    def _wake(self, when: float) -> None:
        """Set the timer."""
        if self._backend is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        # What is overdue has just been scheduled so: nobody is late yet.
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
        renewals: dict[Batch, list[Asked]] = {}
        try:
            self._ask_due(now, late, renewals)
        finally:
            try:
                for batch, asked in renewals.items():
                    for chunk in _chunks(asked):
                        self.renew(batch, chunk)
            finally:
                self._wake_next()
        if late > LATE:
            logger.warning("woke %.2f s late: the event loop was blocked or the process stopped", late)

    def _ask_due(self, now: float, late: float, renewals: dict[Batch, list[Asked]]) -> None:
        """Tell everybody who is due, and who may be early with them; notes who asked for a renewal."""
        for item, _, _ in self._pop(now):
            _ask(item, now, late, renewals)
        if renewals:
            early_too: list[Watched] = []
            for item, due, early in list(self._pop(now + MAX_EARLY)):
                if due - early <= now:
                    early_too.append(item)
                else:
                    self.schedule(item, due, early)  # first, for whoever is asked may put it off
            for item in early_too:
                _ask(item, now, 0.0, renewals)

    def _pop(self, until: float) -> Iterator[tuple[Watched, float, float]]:
        self._order(until)
        while self._heap and self._heap[0][0] <= until:
            due, _, item, early = heapq.heappop(self._heap)
            if item.due == due:
                item.due = NEVER
                yield item, due, early
            else:
                self._stale = max(0, self._stale - 1)

    def renew(self, batch: Batch, asked: list[Asked]) -> None:
        """Write one request for all of `asked`; each is told its own verdict when the reply comes."""
        call = batch([part for _, part in asked])

        def settle(result: list[Any] | BackendError) -> None:
            if not isinstance(result, BackendError):
                for (renewal, _), outcome in zip(asked, result, strict=True):
                    renewal.judged(outcome, call.sent_at)
            elif result.transient or len(asked) == 1:
                for renewal, _ in asked:
                    renewal.unknown(result)
            else:
                # One key that is denied spoils a whole request: split until it stands alone.
                middle = len(asked) // 2
                self.renew(batch, asked[:middle])
                self.renew(batch, asked[middle:])

        call.settle = settle
        if self._backend is None:
            return
        try:
            self._backend.post(call)
        except Exception as error:
            logger.exception("renewals could not be written; they are tried again")
            settle(BackendError("", f"a renewal could not be written: {error!r}", transient=True))


class Limit(Generic[R]):
    """Fails a future at a clock time.

    Args:
        reply: what must be done by then.
        error: made only when the time has come.
    """

    __slots__ = ("_error", "_reply", "due")

    def __init__(self, reply: asyncio.Future[R], error: Callable[[], BaseException]) -> None:
        self.due: float = NEVER
        self._reply = reply
        self._error = error

    def on_due(self, now: float, late: float) -> None:
        if not self._reply.done():
            self._reply.set_exception(self._error())


def _ask(item: Watched, now: float, late: float, renewals: dict[Batch, list[Asked]]) -> None:
    try:
        renewal = item.on_due(now, late)
        if renewal is not None:
            batch, part = renewal.part()
            renewals.setdefault(batch, []).append((renewal, part))
    except Exception:
        logger.exception("an error in the watchdog; the other leases go on being watched")


def _chunks(asked: list[Asked]) -> Iterator[list[Asked]]:
    chunk: list[Asked] = []
    keys = 0
    for one in asked:
        size = len(one[1].keys)
        if chunk and (len(chunk) == CHUNK or keys + size > CHUNK_KEYS):
            yield chunk
            chunk, keys = [], 0
        chunk.append(one)
        keys += size
    if chunk:
        yield chunk
