"""Hears from every Sentinel when it has replaced the master."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...errors import BackendError
from ..base import nothing
from ..presence import Presence
from ..redis import Handshake, RedisBackend, ServerConnector

CHANNEL = "+switch-master"


class Watch:
    """A connection to each Sentinel, for as long as the manager is open.

    Args:
        connectors: to the Sentinels.
        request_timeout: seconds in which one must answer.
        news: gets each message, and None when one may have been missed.
        presence: how the Sentinels know it.
    """

    def __init__(
        self,
        connectors: list[ServerConnector],
        request_timeout: float,
        news: Callable[[str | None], None],
        presence: Presence,
    ) -> None:
        self._news = news
        self._sentinels = [
            RedisBackend(
                connector, request_timeout=request_timeout, handshake=Handshake(mode="sentinel"), presence=presence
            )
            for connector in connectors
        ]

    def start(self, needed: Callable[[], bool] | None) -> None:
        """Connect, however long it takes.

        Args:
            needed: as for `Backend.open`.
        """
        for sentinel in self._sentinels:
            sentinel.start(reconnected=nothing, needed=needed)
            sentinel.subscribe(CHANNEL, self._hear)

    async def stop(self) -> None:
        """Close all."""
        await asyncio.gather(*(sentinel.aclose() for sentinel in self._sentinels))

    def _hear(self, message: str | BackendError | None) -> None:
        if not isinstance(message, BackendError):
            self._news(message)
