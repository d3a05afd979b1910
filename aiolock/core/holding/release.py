"""How the end of an owner reaches the server: written at once, repeated until it is known, awaited by those who
care.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Generator
from logging import WARNING
from typing import cast

from ...errors import BackendError, LockLost
from ...log import Line, Log
from ...scripts.base import Call, Ending, Keep
from ...scripts.outcomes import Missing, Released, ReleaseOutcome
from ..calls import Calls, KeepingCalls
from ..ondemand import OnDemand
from ..scheduler import NEVER
from ..services import Services
from .hold import Hold
from .telling import tell_lost

logger: Log = Log("aiolock.release")
NOT_RELEASED: Line = Line(
    logger,
    WARNING,
    "lock %(lock_name)r was not released, it expires by itself: %(error)s",
    "%(count)d more locks were not released, they expire by themselves: %(lock_names)s",
)
OVERDUE: Line = Line(
    logger,
    WARNING,
    "no answer yet to the release of lock %(lock_name)r; it continues in the background until the lock expires",
    "no answer yet to the releases of %(count)d more locks: %(lock_names)s",
)


class Release:
    """The end of an owner, or of one level of it: repeated until the server answered, or the key must have expired.

    Awaiting only observes.

    Args:
        services: the manager's.
        calls: the name's requests.
        owner: the one that ends, or has less left.
        ttl_ms: the owner's ttl.
        ending: how.
        tainted: a request of this owner went unanswered: leave a tombstone.
        hold: what ends, for those who care how that went; None for an undo.

    Attributes:
        calls: see above.
        failure: what the holder must be told: it was lost, or the server will not let it go. None for an outage.
        outcome: the server's answer, or why there is none; None until then.
        lasting: it has a place in a queue, which does not expire while this process lives: repeated until answered.
        handed_on: its request gives the name to another task of this process, unless it is the turn of others.
        resent: an earlier copy of the request may have done it; then a lock that is gone proves no loss.
    """

    __slots__ = (
        "_attempts",
        "_call",
        "_ending",
        "_hold",
        "_left",
        "_observers",
        "_owner",
        "_services",
        "_tainted",
        "_ttl_ms",
        "_until",
        "calls",
        "due",
        "failure",
        "handed_on",
        "lasting",
        "outcome",
        "resent",
    )

    def __init__(
        self,
        services: Services,
        calls: Calls,
        owner: str,
        ttl_ms: int,
        ending: Ending,
        tainted: bool,
        hold: Hold | None = None,
    ) -> None:
        self._services = services
        self.calls: Calls = calls
        self._owner = owner
        self._ttl_ms = ttl_ms
        self._left = 0  # levels left
        self._ending: Ending = ending
        self._tainted = tainted
        self._hold = hold
        self._until: float | None = None  # clock time at which the key must have expired, if that matters
        self._call: Call[ReleaseOutcome] | None = None
        self._attempts = 0
        self._observers: tuple[asyncio.Future[None], ...] = ()
        self.failure: LockLost | BackendError | None = None
        if hold is not None and hold.reason is not None:
            self.failure = hold.loss()
        self.outcome: ReleaseOutcome | BackendError | None = None
        self.lasting: bool = False
        self.handed_on: bool = False
        self.resent: bool = False
        self.due: float = NEVER

    def write(self, left: int = 0) -> None:
        """Write it, and again until its answer is known; `left` levels are left: 0 ends the owner."""
        self._left = left
        if not self._services.binding.usable:
            self.settle(BackendError(self.calls.name, "the manager was closed", transient=True))
            return
        self._call = call = self._request()
        call.unanswered, call.unrun = self._unanswered, _always
        call.settle = self.settle
        backend = self._services.backend
        (backend.write if call.parts else backend.post)(call)

    def _request(self) -> Call[ReleaseOutcome]:
        args, hold = (self._owner, self._ttl_ms, self._left, self._ending, self._tainted), self._hold
        if hold is not None and hold.kept_until and not self._left:
            left = hold.kept_until - self._services.clock.now()
            if left > 0:
                # The request may arrive late, and then the first counts; a renewal may have come before it that was not
                # answered yet, and then the second does. Neither is too short.
                cut = max(0.0, hold.expiry - hold.kept_until)
                keep = Keep(int(cut * 1000), math.ceil(left * 1000))
                return cast(KeepingCalls, self.calls).release(*args, keep=keep)
        return self.calls.release(*args)

    def taint(self) -> None:
        """An earlier request of this owner went unanswered: what is written from now on leaves a tombstone."""
        self._tainted = True
        if self._call is not None:
            self._call.become(self._request())

    def _unanswered(self) -> bool:
        # The first time at once, and however late: what the owner asked for before may have been held up just as long,
        # and run only now; then the lock is new, or extended. A request that ends every connection must not do it while
        # others need answers, nor forever.
        again = not self.resent
        self.resent = True
        self.taint()
        return again

    def _in_time(self, now: float) -> bool:
        """The key may still be there; it was not extended since the request that counts was written."""
        if self.lasting:
            return True
        if self._until is None:
            # A grant out of a queue lasts for the `liveness`, however short the ttl is, or as another waiter asked.
            until = self._since(now) + max(self._ttl_ms / 1000, self._services.limits.liveness)
            self._until = max(until, self._services.kept_until)
        return now < self._until

    def _since(self, now: float) -> float:
        """Clock time of the last write; `now` if none is known."""
        return now if self._call is None else self._call.sent_at or now

    def settle(self, outcome: ReleaseOutcome | BackendError) -> None:
        """Take the server's answer, or the error with which the backend gave up."""
        services, hold = self._services, self._hold
        if isinstance(outcome, BackendError) and outcome.transient and services.binding.usable:
            now = services.clock.now()
            if self._in_time(now):
                if self._call is not None and self._call.parts:
                    self.resent = True  # some slots may have done it
                self._attempts += 1
                services.ending.add(self._owner)
                services.scheduler.schedule(self, now + min(1.0, 0.02 * 2 ** min(self._attempts, 6)))
                return
        self._call = None
        self.outcome = outcome
        if type(outcome) is Released and outcome.heard:
            services.contended(self.calls.name)
        if hold is not None:
            if type(outcome) is Missing and self.failure is None:
                self._judge(hold, outcome)
            if self._observers:
                services.patience.until.pop(self, None)
                self._wake()
            if isinstance(outcome, BackendError):
                if not outcome.transient and self.failure is None:
                    self.failure = outcome
                if hold.reason is None or services.clock.now() < hold.deadline:  # otherwise its loss was told
                    services.warn(NOT_RELEASED, hold.calls.name, outcome)
        elif isinstance(outcome, BackendError) and self._tainted and services.binding.closing:
            services.warn(NOT_RELEASED, self.calls.name, outcome)  # what was asked for may be granted, and stays so
        if hold is None or self._attempts:
            services.ending.discard(self._owner)
        if self._attempts:
            # The local queue continued when this was first written, and was refused since.
            services.freed(self.calls.kind, self.calls.name)

    def _judge(self, hold: Hold, missing: Missing) -> None:
        if not hold.ended:
            hold.lose(missing.reason)
            self.failure = hold.loss()
        elif self.resent or self._left:  # of one level: what has ended the hold since is judged by its own answer
            name = hold.calls.name
            logger.info("lock %r was gone when its release was repeated", name, extra={"lock_name": name})
        elif hold.entered and self._services.clock.now() < hold.deadline:  # otherwise no task has had it
            hold.reason = missing.reason
            self.failure = hold.loss()
            tell_lost(self._services, hold)

    def on_due(self, now: float, late: float) -> None:
        self.write(self._left)

    # Who waits for it.

    def observed(self) -> asyncio.Future[None]:
        """Done with the answer, after at most `request_timeout`: a longer wait continues in the background, with a
        WARNING.
        """
        services = self._services
        observer: asyncio.Future[None] = asyncio.Future(loop=services.binding.loop)
        if self.outcome is not None or self.failure is not None:
            observer.set_result(None)
            return observer
        if not self._observers:
            call, patience = self._call, services.patience
            since = (0.0 if call is None else call.sent_at) or services.clock.now()
            patience.until[self] = until = since + patience.seconds
            if patience.due == NEVER:
                patience.wake(until)
        self._observers += (observer,)
        return observer

    def overdue(self) -> None:
        """It continues without those that wait for it."""
        self._wake()
        self._services.warn(OVERDUE, self.calls.name)

    def _wake(self) -> None:
        for observer in self._observers:
            if not observer.done():
                observer.set_result(None)
        self._observers = ()


def _always() -> bool:
    return True


class Releasing(OnDemand[None]):
    """What `release()` returns: await it to see how that went, make a task of it, or drop it.

    Args:
        release: what was written when you called `release()`.
    """

    __slots__ = ("_release",)

    def __init__(self, release: Release) -> None:
        self._running = None
        self._release = release

    def __await__(self) -> Generator[object, None, None]:
        yield from self._release.observed()
        if self._release.failure is not None:
            raise self._release.failure

    async def _start(self) -> None:
        await self
