"""One task that waits for a name."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Generic, Protocol, TypeVar

from ..scripts.outcomes import AcquireOutcome
from .calls import Calls
from .grant import Grant
from .policy import Policy
from .runtime import Runtime

E = TypeVar("E")
"""What a waiter is granted by: an entry, of which it knows nothing."""

FINAL_REFRESH = 0.1
"""Seconds before its timeout at which a waiter asks a last time; a quarter of the whole wait if that is less."""


class Expired(Exception):
    """The time to wait is over."""


class Unanswered(Expired):
    """The time for a first answer is over."""


class Queue(Protocol):
    """The gate, as a waiter sees it."""

    liveness_ms: int
    replies: int
    runtime: Runtime

    def refresh(self, waiter: Any) -> None:
        """Ask the server for whatever gets the waiter in: a message may have been missed."""


class Waiter(Generic[E]):
    """One task's wait for a name: it ends with an entry that was granted, with a refusal, or with an error.

    Args:
        queue: the name's gate.
        calls: requests of this acquisition's weight.
        policy: how it wants to hold the name.
        timeout: seconds to wait; None for without limit, 0 for one attempt.
        patient: an outage does not end the wait; else the server must answer within `request_timeout`.

    Attributes:
        expires: clock time at which the task gives up; `math.inf` for never.
        queues: it waits for its turn; else it is refused if somebody holds the name.
        liveness_ms: for how long its request says that this process waits; 0: it does not queue.
        entry: the entry in the server's queue that is its own, or that it was granted by; None while it shares the
            entry of its process.
        asked: its process asked for it when it came.
        outcome: done with the entry's grant; or with the refusal.
    """

    __slots__ = (
        "_final_refresh",
        "_patience",
        "_queue",
        "_replies",
        "asked",
        "calls",
        "due",
        "entry",
        "expires",
        "liveness_ms",
        "metadata",
        "outcome",
        "policy",
        "queues",
    )

    def __init__(self, queue: Queue, calls: Calls, policy: Policy, timeout: float | None, patient: bool) -> None:
        runtime = queue.runtime
        now, holder, metadata = runtime.clock.now(), runtime.holder, policy.metadata
        self._queue = queue
        self._replies = queue.replies
        self.calls: Calls = calls
        self.policy: Policy = policy
        self.metadata: str = holder if metadata is None else f"{holder}\n{metadata}"
        self.queues: bool = timeout != 0
        self.liveness_ms: int = queue.liveness_ms if self.queues else 0
        self.asked: bool = False
        self.entry: E | None = None
        self.outcome: asyncio.Future[Grant | AcquireOutcome] = asyncio.get_running_loop().create_future()
        self.due: float = math.inf
        self.expires: float = math.inf
        self._final_refresh = math.inf  # clock time
        self._patience = due = math.inf if patient else now + runtime.limits.request_timeout  # clock time
        if timeout:
            self.expires = now + timeout
            self._final_refresh = self.expires - min(FINAL_REFRESH, timeout / 4)
            due = min(due, self._final_refresh)
        runtime.watchdog.schedule(self, due)

    @property
    def impatient(self) -> bool:
        """An outage is its error: it does not wait, or the server has not answered since it came and must in time."""
        return not self.queues or (self._patience < math.inf and self._queue.replies == self._replies)

    def wait_again(self) -> None:
        """What it was granted is void: it waits anew."""
        self.entry = None
        self.outcome = self.outcome.get_loop().create_future()

    def fail(self, error: BaseException) -> None:
        """End the wait by an error."""
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()  # whoever was cancelled does not retrieve it

    def on_due(self, now: float, late: float) -> None:
        if self.outcome.done():
            return
        if now >= self._patience and self.impatient:
            self.fail(Unanswered())
            return
        if now >= self.expires:
            self.fail(Expired())
            return
        if now >= self._final_refresh:
            self._final_refresh = math.inf
            self._queue.refresh(self)
        patience = self._patience if now < self._patience else math.inf
        self._queue.runtime.watchdog.schedule(self, min(self._final_refresh, patience, self.expires))
