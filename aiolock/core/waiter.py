"""One task in the queue of a name."""

from __future__ import annotations

import asyncio
import math
import random
from typing import TYPE_CHECKING, Any

from ..errors import BackendError
from ..scripts.base import Ending
from ..scripts.outcomes import Granted, Queued, Refused
from .calls import Calls
from .policy import Policy

if TYPE_CHECKING:
    from .queue_entry import QueueEntry


class Grant:
    """What the server gave.

    Args:
        outcome: its answer.
        sent_at: clock time before which it cannot have been given.
        margin: seconds before the server's expiry at which it counts as lost here, until it was renewed.
        provisional: it must be renewed at once to last for the policy's ttl.

    Attributes:
        deadline: clock time at which it is lost unless renewed.
    """

    __slots__ = ("deadline", "margin", "outcome", "provisional", "sent_at")

    def __init__(self, outcome: Granted, sent_at: float, margin: float, provisional: bool = False) -> None:
        self.outcome: Granted = outcome
        self.sent_at: float = sent_at
        self.margin: float = margin
        self.provisional: bool = provisional
        self.deadline: float = sent_at + outcome.pttl / 1000 - margin


class Expired(Exception):
    """The time for an answer is over."""


class Waiter:
    """One task in the queue of a name, and its request on its way.

    Attributes:
        calls: its requests.
        owner: the id under which it acquires; a new one whenever the old one was undone.
        contending: it may talk to Redis.
        seen: the queue's count of signals when its last attempt was written.
        retry_at: clock time at which it tries without a signal.
        attempts: how often it was refused.
        queue_number: what it asks for, or has, in a queue kept by the server: see `JOIN`.
        queue_entry: its entry in that queue.
        offer: a transfer to it is on its way.
        final_refresh: clock time of a last refresh just before its timeout, while it waits in such a queue.
        grant: it has the lock.
        refusal: the last answer that named a holder.
        undoing: how the server is told that a grant is undone.
        failure: why an attempt after that got no verdict.
        reply: the end of its request on its way, to be failed with `Expired` at `due`; None if it has none.
    """

    __slots__ = (
        "_failures",
        "_sleep",
        "attempts",
        "calls",
        "contending",
        "due",
        "failure",
        "final_refresh",
        "grant",
        "metadata",
        "offer",
        "owner",
        "policy",
        "queue_entry",
        "queue_number",
        "refusal",
        "reply",
        "retry_at",
        "seen",
        "tainted",
        "undoing",
    )

    def __init__(self, calls: Calls, owner: str, policy: Policy, holder: str, queue_number: int) -> None:
        self.calls: Calls = calls
        self.owner: str = owner
        self.policy: Policy = policy
        self.metadata: str = holder if policy.metadata is None else f"{holder}\n{policy.metadata}"
        self.queue_number: int = queue_number
        self.tainted: bool = False
        self.contending: bool = False
        self.seen: int = -1
        self.retry_at: float = -math.inf
        self.attempts: int = 0
        self.queue_entry: QueueEntry | None = None
        self.final_refresh: float = math.inf
        self.offer: bool = False
        self.grant: Grant | None = None
        self.refusal: Refused | Queued | None = None
        self.undoing: Ending = "undone"
        self.failure: BackendError | None = None
        self.reply: asyncio.Future[Any] | None = None
        self.due: float = math.inf
        self._failures = 0
        self._sleep: asyncio.Future[None] | None = None

    def wants(self, now: float, signals: int) -> bool:
        """It is time to ask the server."""
        waits = self.queue_entry is not None and not self.queue_entry.called
        return self.contending and not waits and (self.seen != signals or now >= self.retry_at)

    def pause(self, now: float, signals: int) -> None:
        """The server gave no verdict: wait a little longer each time."""
        self.seen = signals
        self._failures += 1
        self.retry_at = now + min(1.0, 0.05 * 2 ** min(self._failures, 5)) * random.uniform(0.5, 1)

    async def sleep(self) -> None:
        """Until something changed."""
        self._sleep = asyncio.get_running_loop().create_future()
        await self._sleep

    def poke(self) -> None:
        """Something changed: try again."""
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    def unanswered(self) -> bool:
        """The connection died under its request: write it again, and end the owner with a tombstone."""
        self.tainted = True
        return True

    def on_due(self, now: float, late: float) -> None:
        if self.reply is None:
            self.poke()
        elif not self.reply.done():
            self.reply.set_exception(Expired())
