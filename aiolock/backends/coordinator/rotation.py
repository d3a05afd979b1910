"""The members of a cluster, of which one is used: another takes over when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ...clock import backoff
from ...errors import AiolockError
from .store import Away, Lost

LASTING = 1.0
"""Seconds after which a connection has proved to be one: if it fails sooner, the next is not made at once."""
LONGEST = 1.0
"""Seconds between two rounds of attempts at most."""


class Rotation:
    """Says which member is next, and when.

    Args:
        members: host and port of each.

    Attributes:
        members: the one that is used, or tried, is the first.
    """

    def __init__(self, members: Sequence[tuple[str, int]]) -> None:
        self.members: list[tuple[str, int]] = list(members)
        self._since = 0.0  # loop time at which it was connected
        self._hasty = 0  # connections that failed at once, in a row

    def rotate(self) -> None:
        """Let the next be the first."""
        self.members = [*self.members[1:], self.members[0]]

    async def first(self, connect: Callable[[], Awaitable[None]]) -> None:
        """Try each member once. Raises `Away`, or what `connect` raises, if none can be used."""
        failure: Away | None = None
        for _ in range(len(self.members)):
            try:
                await connect()
            except Away as why:
                failure = why
                self.rotate()
            else:
                self.connected()
                return
        assert failure is not None
        raise failure

    def connected(self) -> None:
        """A connection works."""
        self._since = asyncio.get_running_loop().time()

    def failed(self) -> None:
        """It works no more."""
        self._hasty = self._hasty + 1 if asyncio.get_running_loop().time() < self._since + LASTING else 0
        self.rotate()

    async def again(
        self,
        connect: Callable[[], Awaitable[None]],
        lost: Lost,
        wanted: Callable[[], bool],
        answers: Callable[[Away], bool],
    ) -> bool:
        """Try one after the other until one can be used.

        Args:
            connect: makes a connection; raises `Away`.
            lost: told after each round.
            wanted: whether to go on.
            answers: whether such a failure shows that the cluster is there: then it is back soon.

        Returns:
            Whether there is a connection; otherwise it is not wanted any more.
        """
        attempt, answered = 0, False
        if self._hasty:
            await asyncio.sleep(backoff(self._hasty - 1, 0.05, LONGEST))
        while wanted():
            try:
                await connect()
            except (Away, AiolockError) as why:
                attempt += 1
                self.rotate()
                answered = answered or (isinstance(why, Away) and answers(why))
                if attempt % len(self.members) == 0:
                    lost(why.error if isinstance(why, Away) else why, not answered)
                    answered = False
                    await asyncio.sleep(backoff(attempt // len(self.members) - 1, 0.05, LONGEST))
            else:
                self.connected()
                return True
        return False
