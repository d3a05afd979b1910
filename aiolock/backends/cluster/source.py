"""A node that is asked who serves which slot."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import AiolockError, BackendError, ConfigurationError
from ..redis import Asker, ErrorReply, refused
from ..redis.seeds import Address, Seeds
from .slots import SlotMap, read_map

QUESTIONS = ((b"CLUSTER", b"SLOTS"), (b"CLUSTER", b"NODES"))


class Source(Asker):
    """Asked on a connection of its own, which is kept until `close`.

    Args:
        address: the node's.
        seeds: how to connect.
        timeout: seconds for one answer.

    Attributes:
        address: as given.
    """

    def __init__(self, address: Address, seeds: Seeds, timeout: float) -> None:
        super().__init__(seeds.connector(address, False), timeout)
        self.address: Address = address
        self._remap = seeds.remap
        self._said: object = None
        self._owners: Sequence[Address | None] = ()

    async def find_map(self) -> SlotMap:
        """Return the map that it gives; its `owners` are the same list for as long as they do not change.

        Raises:
            BackendError: it does not answer, or refuses.
            ConfigurationError: it is not part of a cluster, or does not suit.

        Cancellation: as for `Asker.ask`. Cost: one round trip.
        """
        slots, nodes = await self.ask(QUESTIONS)
        if isinstance(slots, ErrorReply):
            raise self._refusal(slots)
        try:
            known = read_map(slots, nodes, self.address, self._remap)
        except ValueError as error:
            why = f"{self.address} answered CLUSTER SLOTS with something unexpected ({error})"
            raise BackendError("", why) from error
        if slots != self._said:
            self._said, self._owners = slots, known.owners
        return known._replace(owners=self._owners)

    def sever(self) -> None:
        """Let the node know of the end, if the loop was closed first."""
        if self.link is not None:
            self.link.sever()

    def _refusal(self, error: ErrorReply) -> AiolockError:
        if "cluster support disabled" in str(error):
            return ConfigurationError("", f"the server {self.address} is not part of a cluster: use LockManager(url)")
        return refused("", "CLUSTER SLOTS", error)
