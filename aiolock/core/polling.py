"""How this process learns that it is its turn: it is told, or asks again and again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from ..clock import backoff
from ..errors import BackendError, ConfigurationError
from ..log import Log
from .policy import check_duration

logger: Log = Log("aiolock.manager")


@dataclass(frozen=True, slots=True, init=False)
class Poll:
    """Waiters poll instead of being notified: for servers and proxies without pub/sub.

    Args:
        first: seconds before the second attempt; doubled from attempt to attempt.
        cap: the longest time between two attempts, in seconds.
        jitter: the share of each pause that is random, 0 to 1, so that processes do not ask in step.

    Raises:
        ConfigurationError: a number that cannot work.
    """

    first: float
    cap: float
    jitter: float

    def __init__(self, first: float | timedelta = 0.01, cap: float | timedelta = 0.5, jitter: float = 0.5) -> None:
        soonest = check_duration("", "waiting=Poll(first=…)", first, least=0.001)
        object.__setattr__(self, "first", soonest)
        object.__setattr__(self, "cap", check_duration("", "waiting=Poll(cap=…)", cap, least=soonest))
        if not 0 <= check_duration("", "waiting=Poll(jitter=…)", jitter) <= 1:
            raise ConfigurationError("", f"waiting=Poll(jitter={jitter}) must lie between 0 and 1")
        object.__setattr__(self, "jitter", jitter)

    def pause(self, attempts: int) -> float:
        """Seconds to the next attempt, after this many unsuccessful ones."""
        return backoff(attempts, self.first, self.cap) * (1 - random.uniform(0, self.jitter))


class Waiting:
    """Messages, unless the manager was created with `Poll` or the server refuses SUBSCRIBE.

    Args:
        poll: how to wait without messages; None to be told.

    Attributes:
        told: messages are heard.
        poll: how to wait now; None while messages are heard.
    """

    __slots__ = ("_given", "poll", "told")

    def __init__(self, poll: Poll | None) -> None:
        self._given = poll
        self.begin()

    def begin(self) -> None:
        """The manager is entered: begin as it was created."""
        self.poll: Poll | None = self._given
        self.told: bool = self.poll is None

    def fall_back(self, refusal: BackendError, quiet: bool = False) -> None:
        """The server refuses SUBSCRIBE: poll from now on, until the manager is entered again."""
        if not self.told:
            return
        self.poll, self.told = Poll(), False
        if not quiet:
            logger.warning("no messages of releases, so waiters poll from now on, as with waiting=Poll(): %s", refusal)

    def pause(self, longest: float, attempts: int) -> float:
        """Seconds until a waiter asks again, after this many unsuccessful attempts: `longest`, or less if it polls."""
        return longest if self.poll is None else min(longest, self.poll.pause(attempts - 1))
