"""Whether the master still has its replicas: without them another may have become the master."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...clock import Clock
from ...errors import BackendError
from ...log import Log
from ...scripts.base import Call
from ..redis import Desync, ErrorReply, pack

logger: Log = Log("aiolock.sentinel")

SETTLED = 1.25
"""Seconds after a promotion in which all Sentinels hear of it: the one that ordered it asks every second."""
SPREAD = 3.0
"""Seconds in which every Sentinel has told the others what it knows: each does every two."""
UNCONFIRMED = "the master has lost a replica, and the Sentinels have not said that it is still the master"
_PAUSE_MS = 20


class Witness:
    """Asks the master for its role after each write. If it has lost a replica, that may have been promoted: the
    answers wait until the Sentinels have said who the master is.

    Args:
        clock: for the time since the loss.
        ask: makes somebody ask the Sentinels, who then calls `confirm`.

    Attributes:
        least: 0, the master may have no replicas.
        since: clock time at which the loss was noticed; None if there is no doubt.
        closing: no one waits any more: what is in doubt does not count.
    """

    least: int = 0

    def __init__(self, clock: Clock, ask: Callable[[], None]) -> None:
        self._clock = clock
        self._ask = ask
        self._expected = 0
        self._counted = 0
        self._demoted = False
        self._complained = False
        self.since: float | None = None
        self.closing: bool = False

    def begin(self, expected: int) -> None:
        """There is a new connection to a master that should have so many replicas."""
        self._expected = expected
        self.since = None

    def confirm(self, asked_at: float, unanimous: bool, agreed: bool, disputed: bool) -> None:
        """The Sentinels were asked at this clock time, and named this master.

        Args:
            asked_at: clock time.
            unanimous: all did, and none of them is replacing it.
            agreed: a majority did.
            disputed: one named another, and the others may not have learned of it.
        """
        patience = 0.0 if unanimous else SPREAD if disputed else SETTLED
        if self.since is not None and (unanimous or agreed) and asked_at >= self.since + patience:
            self._expected, self.since = self._counted, None

    def question(self, again: bool = False) -> bytes:
        """ROLE; in doubt after a pause, for which WAIT for too many replicas serves."""
        pause = (b"WAIT", b"1000000", str(_PAUSE_MS).encode()) if again else (b"PING",)
        return pack(pause) + pack((b"ROLE",))

    def undecided(self, reply: object) -> bool:
        """Whether a replica is missing."""
        if isinstance(reply, ErrorReply):
            if not self._complained:
                self._complained = True
                logger.warning(
                    "ROLE was refused (%s): in a failover two may hold a lock for a second; allow the user `+role`",
                    reply,
                )
            self._demoted = False
            return False
        if not isinstance(reply, list) or not reply:
            raise Desync("ROLE got the answer to something else")
        self._demoted = reply[0] != b"master"
        if self._demoted:
            return False
        self._counted = len(reply[2])
        if self._counted >= self._expected:
            self._expected, self.since = self._counted, None
            return False
        if self.since is None:
            self.since = self._clock.now()
            logger.info("the master has lost a replica: asking the Sentinels who the master is")
            self._ask()
        return self.since is not None and not self.closing

    def doubt(self, request: Call[Any], first: object, second: object) -> BackendError | None:
        """Only if it has become a replica, or at the end: otherwise the doubt is over by now."""
        if self._demoted:
            why = "the server has become a replica"
        elif self.since is not None:
            why = UNCONFIRMED
        else:
            return None
        return BackendError(request.name, f"{request.doing} does not count: {why}", transient=True)
