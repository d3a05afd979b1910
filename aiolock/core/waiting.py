"""How this process learns that it is its turn: it is told, or asks again and again."""

from __future__ import annotations

from ..errors import BackendError
from ..log import Log
from .poll import Poll

logger: Log = Log("aiolock.manager")


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

    def fall_back(self, refusal: BackendError) -> None:
        """The server refuses SUBSCRIBE: poll from now on, until the manager is entered again."""
        if self.told:
            self.poll, self.told = Poll(), False
            logger.warning("not told of releases, so waiters poll from now on, as with waiting=Poll(): %s", refusal)

    def pause(self, longest: float, attempts: int) -> float:
        """Seconds until a waiter asks again, after this many unsuccessful attempts: `longest`, or less if it polls."""
        return longest if self.poll is None else min(longest, self.poll.pause(attempts - 1))
