"""A backend that is being closed."""

from __future__ import annotations

import asyncio

from ..worker import Worker
from .session import Session


class Ending:
    """Its connection closes once everything is sent, or if that takes too long.

    Args:
        session: if there is a connection.
        connecting: if there is none.
        linger: seconds.
    """

    def __init__(self, session: Session | None, connecting: Worker[None] | None, linger: float) -> None:
        self._connecting = connecting
        self._link = session.link if session is not None else None
        if connecting is not None:
            connecting.stop()
        if session is not None:
            session.close()
            self._timer = asyncio.get_running_loop().call_later(linger, session.link.abort)

    async def wait(self) -> None:
        """Wait until nothing is left."""
        if self._connecting is not None:
            await self._connecting.stopped()
        if self._link is not None:
            await self._link.closed()
            self._timer.cancel()
