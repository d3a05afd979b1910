"""Makes connections to a server that can be used: reached, greeted, and a master."""

from __future__ import annotations

import asyncio

from ...errors import BackendError, ConfigurationError
from ..presence import PRESENCE, Presence
from .backoff import Backoff
from .connection import Connector, Link
from .failures import Misplaced, Unready, unconnected
from .handshake import Handshake


class Dialer:
    """Asks the connector again for each attempt.

    Args:
        connector: knows where the master is.
        handshake: greets each connection.
        presence: how the server knows it.

    Attributes:
        opened: how many connections it has made.
    """

    def __init__(self, connector: Connector, handshake: Handshake, presence: Presence = PRESENCE) -> None:
        self._connector = connector
        self._handshake = handshake
        self._presence = presence
        self.opened: int = 0

    async def dial(self, timeout: float) -> Link:
        """Make one attempt, for `timeout` seconds.

        Raises:
            AiolockError: why it did not work. A replica is a transient error, and so is a server that is not ready.

        Cancellation: nothing is left open.
        """
        link: Link | None = None
        try:
            async with asyncio.timeout(timeout):
                link = await self._connector.connect()
                await self._handshake.greet(link, self._presence.client_name())
        except BaseException as error:
            if link is not None:
                link.reset()
            if not isinstance(error, Exception):
                raise
            failure = unconnected(error)
            raise failure from failure.__cause__
        self.opened += 1
        return link

    async def find_master(self, timeout: float) -> Link:
        """Make one attempt; a replica may be promoted, another server get its address, or a server be ready to answer,
        so it is asked again.

        Raises:
            AiolockError: why it did not work within `timeout` seconds.

        Cancellation: nothing is left open.
        """
        loop, backoff = asyncio.get_running_loop(), Backoff()
        until = loop.time() + timeout
        known: BackendError | None = None  # why it was asked again
        while True:
            try:
                return await self.dial(max(0.0, until - loop.time()))
            except BackendError as error:
                if isinstance(error.__cause__, (Misplaced, Unready)):
                    known = error
                elif known is None or not isinstance(error.__cause__, TimeoutError):
                    raise
            pause = backoff.next()
            if loop.time() + pause >= until:
                if self._connector.fixed and isinstance(known.__cause__, Misplaced):
                    raise ConfigurationError("", str(known)) from known.__cause__
                raise known from known.__cause__
            await asyncio.sleep(pause)
