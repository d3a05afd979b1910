"""How the end of an owner reaches the server: written at once, repeated until it is known, awaited by those who
care.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from ...errors import BackendError, LockLost
from ...log import Log
from ...scripts.base import Call, Ending
from ...scripts.outcomes import Missing, ReleaseOutcome
from ..calls import Calls
from ..ondemand import OnDemand
from ..scheduler import NEVER
from ..services import Services
from .hold import Hold
from .telling import tell_lost

logger: Log = Log("aiolock.release")


class ReleaseResult:
    """What became of the end of a hold, or of one level of it. Awaiting only observes.

    Args:
        services: the manager's.
        hold: what ends.

    Attributes:
        failure: what the holder must be told: it was lost, or the server will not let it go. None for an outage.
        outcome: the server's answer, or why there is none; None until then.
        handed_on: its request gives the name to another task of this process, unless it is the turn of others.
        sent_at: clock time at which its request was written, if that is known.
    """

    __slots__ = ("_hold", "_observers", "_services", "failure", "handed_on", "outcome", "sent_at")

    def __init__(self, services: Services, hold: Hold) -> None:
        self._services = services
        self._hold = hold
        self.failure: LockLost | BackendError | None = hold.loss() if hold.reason is not None else None
        self._observers: tuple[asyncio.Future[None], ...] = ()
        self.outcome: ReleaseOutcome | BackendError | None = None
        self.handed_on: bool = False
        self.sent_at: float = 0.0

    def settle(self, outcome: ReleaseOutcome | BackendError, resent: bool = False) -> None:
        """Take the server's answer, or the error with which the client gave up.

        Args:
            outcome: either.
            resent: an earlier copy of the request may have done it; then a lock that is gone proves no loss.
        """
        self.outcome = outcome
        if type(outcome) is Missing and self.failure is None:
            self._judge(outcome, resent)
        if self._observers:
            self._services.patience.until.pop(self, None)
            self._wake()
        if isinstance(outcome, BackendError):
            if not outcome.transient and self.failure is None:
                self.failure = outcome
            name = self._hold.calls.name
            text = "lock %r was not released, it expires by itself: %s"
            logger.warning(text, name, outcome, extra={"lock_name": name})

    def _judge(self, missing: Missing, resent: bool) -> None:
        hold = self._hold
        if not hold.ended:
            hold.lose(missing.reason)
            self.failure = hold.loss()
        elif resent:
            name = hold.calls.name
            logger.info("lock %r was gone when its release was repeated", name, extra={"lock_name": name})
        elif self._services.clock.now() < hold.deadline:
            hold.reason = missing.reason
            self.failure = hold.loss()
            tell_lost(self._services, hold)

    def observed(self) -> asyncio.Future[None]:
        """Done with the answer, after at most `request_timeout`: a longer wait continues in the background, with a
        WARNING.
        """
        observer: asyncio.Future[None] = asyncio.Future(loop=self._services.binding.loop)
        if self.outcome is not None or self.failure is not None:
            observer.set_result(None)
            return observer
        if not self._observers:
            self._services.patience.begin(self, self.sent_at or self._services.clock.now())
        self._observers += (observer,)
        return observer

    def overdue(self) -> None:
        """It continues without those that wait for it."""
        self._wake()
        logger.warning(
            "no answer yet to the release of lock %r; it continues in the background until the lock expires",
            self._hold.calls.name,
            extra={"lock_name": self._hold.calls.name},
        )

    def _wake(self) -> None:
        for observer in self._observers:
            if not observer.done():
                observer.set_result(None)
        self._observers = ()


class PendingRelease:
    """A release or an undo, repeated until the server answered or the key must have expired.

    Args:
        services: the manager's.
        calls: the name's requests.
        owner: the one that ends, or has `left` levels left.
        ttl_ms: the owner's ttl.
        left: levels left; 0 ends the owner.
        ending: how.
        tainted: a request of this owner went unanswered: leave a tombstone.
        result: told the end of it; None if no one cares.
        resent: another request may have ended the owner already.
    """

    __slots__ = (
        "_attempts",
        "_call",
        "_calls",
        "_ending",
        "_left",
        "_owner",
        "_resent",
        "_result",
        "_services",
        "_tainted",
        "_ttl_ms",
        "_until",
        "due",
    )

    def __init__(
        self,
        services: Services,
        calls: Calls,
        owner: str,
        ttl_ms: int,
        left: int,
        ending: Ending,
        tainted: bool,
        result: ReleaseResult | None = None,
        resent: bool = False,
    ) -> None:
        self._services = services
        self._calls = calls
        self._owner = owner
        self._ttl_ms = ttl_ms
        self._left = left
        self._ending: Ending = ending
        self._tainted = tainted
        self._result = result
        self._until: float | None = None  # clock time at which the key must have expired, if that matters
        self._call: Call[ReleaseOutcome] | None = None
        self._attempts = 0
        self._resent = resent
        self.due: float = NEVER
        self._write()

    def _write(self) -> None:
        if not self._services.binding.usable:
            self._settle(BackendError(self._calls.name, "the manager was closed", transient=True))
            return
        call = self._calls.release(self._owner, self._ttl_ms, self._left, self._ending, self._tainted)
        self._call = call
        call.unanswered, call.unrun = self._unanswered, _always
        call.settle = self._settle
        self._services.backend.post(call)
        if self._result is not None:
            self._result.sent_at = call.sent_at

    def taint(self) -> None:
        """An earlier request of this owner went unanswered: what is written from now on leaves a tombstone."""
        self._tainted = True
        if self._call is not None:
            self._call.become(self._calls.release(self._owner, self._ttl_ms, self._left, self._ending, True))

    def _unanswered(self) -> bool:
        # The first time at once, and however late: what the owner asked for before may have been held up just as long,
        # and run only now; then the lock is new, or extended. A request that ends every connection must not do it while
        # others need answers, nor for ever.
        again = not self._resent
        self._resent = True
        self.taint()
        return again

    def _in_time(self, now: float) -> bool:
        """The key may still be there; it was not extended since the request that counts was written."""
        if self._until is None:
            sent_at = 0.0 if self._call is None else self._call.sent_at
            # A grant out of a queue lasts for the `liveness`, however short the ttl is, or as another waiter asked.
            until = (sent_at or now) + max(self._ttl_ms / 1000, self._services.limits.liveness)
            self._until = max(until, self._services.kept_until)
        return now < self._until

    def _settle(self, outcome: ReleaseOutcome | BackendError) -> None:
        if isinstance(outcome, BackendError) and outcome.transient and self._services.binding.usable:
            now = self._services.clock.now()
            if self._in_time(now):
                if self._call is not None and self._call.parts:
                    self._resent = True  # some slots may have done it
                self._call = None
                self._attempts += 1
                self._services.ending.add(self._owner)
                self._services.scheduler.schedule(self, now + min(1.0, 0.02 * 2 ** min(self._attempts, 6)))
                return
        self._call = None
        if self._result is not None:
            # For one level: a hold that has ended since is judged by what ended it.
            self._result.settle(outcome, self._resent or self._left > 0)
        else:
            self._services.ending.discard(self._owner)
        if self._attempts:
            self._services.ending.discard(self._owner)
            # The local queue continued when this was first written, and was refused since.
            self._services.freed(self._calls.kind, self._calls.name)

    def on_due(self, now: float, late: float) -> None:
        self._write()


def _always() -> bool:
    return True


class Releasing(OnDemand[None]):
    """What `release()` returns: await it to see how that went, make a task of it, or drop it.

    Args:
        result: what was written when you called `release()`.
    """

    __slots__ = ("_result",)

    def __init__(self, result: ReleaseResult) -> None:
        self._running = None
        self._result = result

    def __await__(self) -> Generator[object, None, None]:
        yield from self._result.observed()
        if self._result.failure is not None:
            raise self._result.failure

    async def _start(self) -> None:
        await self
