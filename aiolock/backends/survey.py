"""All masters that keep the locks of one source, for those who only look."""

from __future__ import annotations

from collections.abc import Sequence

from ..clock import SystemClock
from ..errors import BackendError, ConfigurationError
from .base import nothing
from .cluster.slots import SlotMap, slot_of
from .cluster.topology import Topology
from .reader import Reader
from .redis import ServerConnector
from .redis.seeds import Address, Seeds
from .redis.sentinels import Sentinels
from .sentinel.master import Master
from .stores import store_of

Source = str | Seeds | Sentinels


class Survey:
    """All masters of one source; `async with` finds and leaves them.

    Args:
        source: a URL, nodes of a cluster, or Sentinels.
        timeout: seconds for each answer.
        pushes: speak RESP3, as a manager does that is notified of grants.

    Attributes:
        masters: on a cluster several.
    """

    def __init__(self, source: Source, timeout: float = 5.0, pushes: bool = False) -> None:
        self.masters: list[Reader] = []
        self._source = source
        self._timeout = timeout
        self._pushes = pushes
        self._slots: SlotMap | None = None
        self._by_address: dict[Address, Reader] = {}

    async def __aenter__(self) -> Survey:
        source = self._source
        if isinstance(source, Seeds):
            self._slots, _ = await Topology(source, self._timeout).find(self._timeout)
            for address in sorted({owner for owner in self._slots.owners if owner is not None}):
                self._by_address[address] = Reader(source.connector(address, self._pushes), self._timeout, shares=True)
            self.masters = list(self._by_address.values())
        elif isinstance(source, Sentinels):
            master = Master(SystemClock(), nothing).choose(await source.ask(), len(source.connectors))
            self.masters = [Reader(source.server(master, self._pushes), self._timeout)]
        elif store_of(source) == "sqlite":
            from .sqlite import path_of  # only who uses it needs it
            from .sqlite.reader import FileReader

            self.masters = [FileReader(path_of(source))]
        elif store_of(source) == "postgresql":
            from .postgres.reader import DatabaseReader

            self.masters = [DatabaseReader(source, self._timeout)]
        elif store_of(source) == "mysql":
            from .mysql.reader import DatabaseReader as MySQLReader

            self.masters = [MySQLReader(source, self._timeout)]
        elif store_of(source) == "etcd":
            from .etcd.reader import EtcdReader

            self.masters = [EtcdReader(source, self._timeout)]
        elif store_of(source) == "zookeeper":
            from .zookeeper.reader import ZooKeeperReader

            self.masters = [ZooKeeperReader(source)]
        else:
            self.masters = [Reader(ServerConnector(source, self._pushes), self._timeout)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for master in self.masters:
            await master.close()

    async def check_complete(self, keys: Sequence[str]) -> None:
        """Make sure that a server that is asked alone is not a node of a cluster: it would show a part, and no error.

        Args:
            keys: which to ask for; in slots that are far apart, so that no node of several has all of them.

        Raises:
            ConfigurationError: it is.
            BackendError: it is unreachable, or refuses.

        Cost: a round trip; none on a cluster.
        """
        if self._slots is None:
            await self.masters[0].read([("PTTL", key) for key in keys])

    def need_redis(self, what: str) -> None:
        """Raise if it is another store; `what` needs Redis, in the plural, such as "Redisson's locks".

        Raises:
            ConfigurationError: it is a file or a database.
        """
        if store := store_of(self._source):
            raise ConfigurationError("", f"{what} need a Redis server, and this is {store}: give the server's URL")

    def serving(self, key: str) -> Reader:
        """The master that has a key.

        Raises:
            BackendError: no node of the cluster serves its slot.
        """
        if self._slots is None:
            return self.masters[0]
        owner = self._slots.owners[slot_of(key)]
        if owner is None:
            raise BackendError("", f"no node of the cluster serves slot {slot_of(key)}", transient=True)
        return self._by_address[owner]
