"""What a manager offers to all that belongs to it: server, clock, timer, identity. It knows of no lock."""

from __future__ import annotations

import asyncio
import contextvars
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..backends.base import Backend
from ..clock import Clock, format_seconds
from ..errors import AiolockError, BackendError
from ..log import Line
from ..repeats import PERIOD, Repeats
from ..scripts.base import Call, drop, resolve
from ..scripts.keys import Keys
from .binding import Binding
from .fences import Fences
from .observers import Observers
from .policy import milliseconds
from .polling import Poll, Waiting
from .renewals import Renewals
from .scheduler import Limit, Patience, Scheduler

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Limits:
    """The manager's own numbers; durations in seconds.

    Attributes:
        request_timeout: how long one answer of the server may take.
        recheck: how long a waiter sleeps at most before it asks again; in a queue on the server, it asks every third of
            `liveness` anyway.
        handoff_limit: how often a lock is handed on inside the process in one turn while other processes wait; on a
            quorum, how often in a row before a pause.
        liveness: how long a process that waits in a queue on the server counts as alive without a heartbeat.
        liveness_ms: the same as the wire has it.
    """

    request_timeout: float
    recheck: float
    handoff_limit: int
    liveness: float
    liveness_ms: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "liveness_ms", milliseconds(self.liveness))


class Services:
    """Bound to a loop and a process by the manager on entry; `Runtime` has what tasks hold and wait for, too.

    Args:
        backend: the server.
        namespace: prefix of all keys.
        limits: the manager's numbers.
        waiting: how to wait without messages; None to be told.
        observers: told what happens; None for the log alone.
        name: the manager's; empty if it has none.
    """

    def __init__(
        self,
        backend: Backend,
        namespace: str,
        limits: Limits,
        waiting: Poll | None = None,
        observers: Observers | None = None,
        name: str = "",
    ) -> None:
        self.backend = backend
        self.clock: Clock = backend.clock
        self.limits = limits
        self.observers: Observers = observers or Observers()
        self.keys: Keys = Keys(namespace, backend.db)
        self.waiting: Waiting = Waiting(waiting)
        self.fences: Fences = Fences(namespace)
        self.binding: Binding = Binding(name)
        self.ending: set[str] = set()  # owners that have no hold, and whose end the server has not answered yet
        self.kept_until: float = 0.0  # see `keeps()`
        self.context: contextvars.Context = contextvars.Context()  # of callbacks that outlive the task that set them
        self._renew()
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Create what a subclass keeps for as long as the manager lives."""

    def _renew(self) -> None:
        """Create again what each entry of the manager has."""
        self.scheduler: Scheduler = Scheduler(self.clock, Renewals(self.backend, self.observers).write, self.observers)
        self.observers.repeats.end()
        self.observers.repeats = Repeats(self._gather)
        self.patience: Patience = Patience(self.scheduler, self.limits.request_timeout)

    def _gather(self, repeats: Repeats) -> None:
        self.scheduler.schedule(repeats, self.clock.now() + PERIOD)

    def bind(self) -> None:
        """Begin on the running loop, in this process."""
        self.binding.begin()
        self.waiting.begin()
        self._renew()

    def stop(self) -> None:
        """Nothing is due any more, and nothing is left to be logged."""
        self.scheduler.stop()
        self.observers.repeats.end()

    @abstractmethod
    def freed(self, kind: str, name: str) -> None:
        """A name may be free, though its release has failed at first: a task of this process may wait for it."""

    def contended(self, name: str) -> None:
        """Tasks of other processes wait for the name."""

    def keeps(self, pttl: int) -> None:
        """The server has granted a name for `pttl` ms, on other terms than those of the waiter who takes it. Nothing
        shortens that, so until `kept_until` it may keep the name for longer than its holder's ttl.
        """
        self.kept_until = max(self.kept_until, self.clock.now() + pttl / 1000)

    def fall_back(self, refusal: BackendError) -> None:
        """The server refuses SUBSCRIBE, which no longer matters once the manager closes."""
        if not self.binding.closing:
            self.waiting.fall_back(refusal, self.observers.quiet)

    async def within(self, reply: asyncio.Future[R], due: float, error: Callable[[], BaseException]) -> R:
        """Wait for `reply`; fail it with `error()` if it is not there at clock time `due`."""
        limit = Limit(reply, error)
        self.scheduler.schedule(limit, due)
        try:
            return await reply
        finally:
            self.scheduler.forget(limit)

    def warn(self, line: Line, name: str, error: BackendError | None = None) -> None:
        """Log what has gone wrong with a lock, perhaps with others of which the same is said."""
        if self.observers.quiet:
            return
        values = {"lock_name": name} if error is None else {"lock_name": name, "error": str(error)}
        self.observers.repeats.say(line, values, error is not None and error.transient)

    def away(self, *names: str) -> AiolockError | None:
        """Why no server answers requests about these names at the moment; None if one does, or if nothing is known."""
        keys = (self.keys.of("lock", name).lock for name in names)  # those of other kinds are on the same server
        failures = (self.backend.away(key) for key in keys)
        return next((failure for failure in failures if failure is not None), None)

    def unanswered(
        self,
        name: str,
        doing: str,
        seconds: float | None = None,
        away: AiolockError | None = None,
        names: Sequence[str] = (),
    ) -> BackendError:
        """Return the error for a request that no server has answered in time.

        Args:
            name: the lock's.
            doing: what it was for.
            seconds: how long it has waited; None for `request_timeout`.
            away: why it need not wait: the server cannot be reached.
            names: what the request was about, if several names.
        """
        known = away or self.away(*(names or (name,)))
        within = "" if away else f" within {format_seconds(seconds or self.limits.request_timeout)} s"
        error = BackendError(
            name,
            f"{doing} lock {name!r} got no answer{within}: {known or f'is {self.backend.abilities.store} reachable?'}",
            transient=known is None or (isinstance(known, BackendError) and known.transient),
        )
        error.__cause__ = known
        return error

    async def ask(self, call: Call[R], doing: str, again: bool = True) -> R:
        """Run `call` and wait for its answer, for at most `request_timeout`.

        Args:
            call: the request.
            doing: what it is for, for errors.
            again: it may run twice, so it is written again if the connection died under it, while someone waits.

        Raises:
            BackendError: unreachable or refused.

        Cancellation: what was written stays written. Cost: one round trip.
        """
        self.binding.check(call.name)
        reply: asyncio.Future[R]
        waiting = True
        if again and call.unanswered is drop:
            call.unanswered = lambda: waiting
        call.away = lambda known: resolve(reply, self.unanswered(call.name, doing, away=known))
        reply = self.backend.run(call)
        patience = self.clock.now() + self.limits.request_timeout
        try:
            return await self.within(reply, patience, lambda: self.unanswered(call.name, doing))
        finally:
            waiting = False
            call.withdraw()
