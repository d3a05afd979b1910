"""A node that is asked who serves which slot."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from ...errors import AiolockError, BackendError, ConfigurationError
from ...log import Log
from ..redis import Address, ErrorReply, Link, Seeds, refused, unconnected
from .slots import SlotMap, read_map

logger: Log = Log("aiolock.cluster")

QUESTIONS = ((b"CLUSTER", b"SLOTS"), (b"CLUSTER", b"NODES"))


class Source:
    """Asked on a connection of its own, which is kept until `close`.

    Args:
        address: the node's.
        seeds: how to connect.
        timeout: seconds for one answer.

    Attributes:
        address: as given.
    """

    def __init__(self, address: Address, seeds: Seeds, timeout: float) -> None:
        self.address: Address = address
        self._seeds = seeds
        self._timeout = timeout
        self._link: Link | None = None
        self._said: object = None
        self._owners: Sequence[Address | None] = ()

    async def ask(self) -> SlotMap:
        """Return the map that it gives; its `owners` are the same list for as long as they do not change.

        Raises:
            BackendError: it does not answer, or refuses.
            ConfigurationError: it is not part of a cluster, or does not suit.

        Cancellation: the connection is gone, because an answer may be on its way. Cost: one round trip.
        """
        try:
            async with asyncio.timeout(self._timeout):
                if self._link is None:
                    self._link = await self._seeds.connector(self.address, False).connect()
                slots, nodes = await self._link.ask(QUESTIONS)
        except BaseException as error:
            self.drop()
            if not isinstance(error, Exception):
                raise
            failure = unconnected(error)
            raise failure from failure.__cause__
        if isinstance(slots, ErrorReply):
            raise self._refusal(slots)
        try:
            known = read_map(slots, nodes, self.address, self._seeds.remap)
        except ValueError as error:
            why = f"{self.address} answered CLUSTER SLOTS with something unexpected ({error})"
            raise BackendError("", why) from error
        if slots != self._said:
            self._said, self._owners = slots, known.owners
        return known._replace(owners=self._owners)

    async def close(self) -> None:
        """Close the connection, if there is one."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
            with contextlib.suppress(OSError):
                await link.closed()

    def drop(self) -> None:
        """Close it without waiting for anything."""
        link, self._link = self._link, None
        if link is not None:
            link.reset()

    def sever(self) -> None:
        """Let the node know of the end, if the loop was closed first."""
        if self._link is not None:
            self._link.sever()

    def _refusal(self, error: ErrorReply) -> AiolockError:
        if "cluster support disabled" in str(error):
            return ConfigurationError("", f"the server {self.address} is not part of a cluster: use LockManager(url)")
        return refused("", "CLUSTER SLOTS", error)
