"""Connects to the master that the Sentinels name."""

from __future__ import annotations

from ..redis import Credentials, Link, Misplaced
from ..redis.seeds import Address
from ..redis.sentinels import Sentinels
from .master import Master
from .witness import Witness


class MasterConnector:
    """Asks the Sentinels again for each connection; implements `Connector`.

    Args:
        sentinels: whom to ask.
        master: what is known.
        pushes: messages may arrive between replies.
        witness: told how many replicas to expect.

    Attributes:
        db: the number of the database.
        address: the service.
        credentials: the user's provider of them, if there is one.
        fixed: False.
        at: where the last connection went.
    """

    def __init__(self, sentinels: Sentinels, master: Master, pushes: bool, witness: Witness | None = None) -> None:
        self._sentinels = sentinels
        self._master = master
        self._pushes = pushes
        self._witness = witness
        sample = sentinels.server(Address("", 0), pushes)
        self.db: int = sample.db
        self.address: str = sentinels.service
        self.credentials: Credentials | None = sample.credentials
        self.fixed: bool = False
        self.at: Address | None = None

    async def connect(self) -> Link:
        """See `Connector.connect`."""
        reports = await self._sentinels.ask()
        address = self.at = self._master.choose(reports, len(self._sentinels.connectors))
        if self._witness is not None:
            self._witness.begin(max((report.replicas for report in reports if report.master == address), default=0))
        link = await self._sentinels.server(address, self._pushes).connect()
        if self._master.address != address:
            link.reset()
            raise Misplaced("another server became the master meanwhile")
        return link
