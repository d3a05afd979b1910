"""One task's place in the queue of a name."""

from __future__ import annotations

import asyncio
import math
import random

from ..errors import BackendError
from ..scripts.outcomes import Granted, Refused
from .policy import Policy


class Waiter:
    """One task's place in the queue of a name.

    Attributes:
        owner: the id under which it acquires; a new one whenever the old one was undone.
        contending: it may talk to Redis.
        seen: the queue's count of signals when its last attempt was written.
        retry_at: clock time at which it tries without a signal.
        offer: a transfer to it is on its way.
        grant: it has the lock: the answer, and when the request for it was written.
        refusal: the last answer that named a holder.
        failure: why an attempt after that got no verdict.
    """

    __slots__ = (
        "_failures",
        "_sleep",
        "contending",
        "due",
        "failure",
        "grant",
        "metadata",
        "offer",
        "owner",
        "policy",
        "refusal",
        "retry_at",
        "seen",
        "tainted",
    )

    def __init__(self, owner: str, policy: Policy, holder: str) -> None:
        self.owner: str = owner
        self.policy: Policy = policy
        self.metadata: str = holder if policy.metadata is None else f"{holder}\n{policy.metadata}"
        self.tainted: bool = False
        self.contending: bool = False
        self.seen: int = -1
        self.retry_at: float = -math.inf
        self.offer: bool = False
        self.grant: tuple[Granted, float] | None = None
        self.refusal: Refused | None = None
        self.failure: BackendError | None = None
        self.due: float = math.inf
        self._failures = 0
        self._sleep: asyncio.Future[None] | None = None

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
        """Something changed: look again."""
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    def on_due(self, now: float, late: float) -> None:
        self.poke()
