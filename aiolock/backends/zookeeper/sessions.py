"""The sessions of one manager: one for each time that places shall last, about, so that there are only a few."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection

from ...clock import Clock
from ...errors import BackendError
from ..coordinator.store import Away, Lost, Refusal
from .address import ZooKeeperAddress
from .session import Session, needed

USUAL = 30.0
"""Seconds: the ttl whose session also has what is no place."""


class Sessions:
    """Those of one manager.

    Args:
        address: where the servers are.
        clock: of their times.
        lost: told of outages.
        back: told when there is a connection again, or a session is over.
    """

    def __init__(self, address: ZooKeeperAddress, clock: Clock, lost: Lost, back: Callable[[], None]) -> None:
        self._address = address
        self._clock = clock
        self._lost, self._back = lost, back
        self._all: dict[float, Session] = {}
        self._closed = False

    async def open(self) -> None:
        """Begin the first one. Raises `Away`."""
        session = self._made(_length(USUAL))
        await session.open()

    def main(self) -> Session:
        """Return the one for what is no place. Whoever uses it waits until it is ready. Raises `Away` if all is
        closed.
        """
        return self._with(_length(USUAL))

    async def keeping(self, ttl: float) -> Session:
        """Return one that is ready, and whose nodes last for so many seconds after a proof.

        Raises:
            Away: all is closed.
            Refusal: no session lasts for so long.
        """
        while True:
            session = self._with(_length(ttl))
            await session.ready()
            if not session.over:
                break
        most = session.longest
        if most < ttl - 0.001:
            raise Refusal(
                f"its sessions last for {session.timeout:g} s at most, so a lock for {most:g} s, not for {ttl:g} s: "
                "ask for a shorter ttl, or raise maxSessionTimeout"
            )
        return session

    async def aclose(self, used: Collection[Session]) -> None:
        """Close all; end those that are not used any more."""
        sessions, self._all, self._closed = self._all, {}, True
        await asyncio.gather(*(session.aclose(end=session not in used) for session in sessions.values()))

    def _with(self, length: float) -> Session:
        session = self._all.get(length)
        if session is None or session.over:
            if self._closed:
                raise Away(BackendError("", "the connection to ZooKeeper is closed", transient=True), ran=False)
            session = self._made(length)
            session.begin()
        return session

    def _made(self, length: float) -> Session:
        session = self._all[length] = Session(self._address, length, self._clock, self._lost, self._back)
        return session


def _length(ttl: float) -> float:
    """Seconds that the session for a ttl lasts: few times for many ttls, and none is a fifth longer than needed."""
    return round(2 ** (math.ceil(4 * math.log2(needed(ttl))) / 4), 3)
