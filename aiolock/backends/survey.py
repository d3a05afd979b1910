"""Plain requests to the masters that keep locks, for those who only look: no script, no subscription, no lock."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

from ..clock import SystemClock
from ..errors import AiolockError, BackendError, ConfigurationError
from ..scripts.view import Command, Inspection, NameView, pairs_of
from .base import nothing
from .cluster.slots import SlotMap, slot_of
from .cluster.topology import Topology
from .redis import (
    MISTAKEN,
    REPLICA,
    Asker,
    ErrorReply,
    ServerConnector,
    ServerInfo,
    code_of,
    refused,
)
from .redis.seeds import Address, Seeds
from .redis.sentinels import Sentinels
from .sentinel.master import Master
from .stores import store_of

Source = str | Seeds | Sentinels
BATCH = 500
"""How many names one request asks about."""
ELSEWHERE = frozenset({"ASK", "MOVED", "TRYAGAIN"})
"""Errors of a node of a cluster about keys of which it has not all, or none."""


class Reader(Asker):
    """One server, asked one request at a time.

    Args:
        connector: where it is.
        timeout: seconds for each answer.
        shares: it is a master of a cluster.

    Attributes:
        address: host and port, or the path of the socket.
        ahead_us: by how much its clock is ahead of ours, at most as wrong as a round trip is long.
        moving: how many names it could not show, because their slots move to or from it.
    """

    def __init__(self, connector: ServerConnector, timeout: float, shares: bool = False) -> None:
        super().__init__(connector, timeout)
        self.address: str = connector.address
        self.ahead_us: int = 0
        self.moving: int = 0
        self._shares = shares

    @property
    def now_us(self) -> int:
        """About its time, in microseconds."""
        return time.time_ns() // 1000 + self.ahead_us

    async def ask(self, commands: Sequence[tuple[str | bytes, ...]]) -> list[object]:
        """See `Asker.ask`; its error says which server it is about."""
        try:
            return await super().ask(commands)
        except AiolockError as failure:
            self._named(failure)
            raise

    def _named(self, failure: AiolockError) -> AiolockError:
        """Of several servers, people must know which; most errors of connections say it."""
        if self.address not in failure.message:
            failure.message = f"{self.address}: {failure.message}"
        return failure

    async def read(self, commands: Sequence[Command]) -> list[object]:
        """Return the replies, and take note of the server's clock. Raises and costs what `ask` does.

        Raises:
            ConfigurationError: it is no master.
            BackendError: even if it refuses one of them.
        """
        if self.link is None:
            (hello, *replies) = await self.ask([("HELLO",), ("TIME",), *commands])  # no user can be denied HELLO
            self._judge(ServerInfo(dict(pairs_of(hello))))
        else:
            replies = await self.ask([("TIME",), *commands])
        clock, *replies = replies
        for command, reply in zip([("TIME",), *commands], [clock, *replies], strict=True):
            if isinstance(reply, ErrorReply) and not self._concerns_a_key(reply):
                raise self._named(self._refused(command, reply))
        self._set(clock)
        return replies

    def _judge(self, server: ServerInfo) -> None:
        """See what it is; some servers do not say."""
        if server.mode == "sentinel":
            raise ConfigurationError("", MISTAKEN["sentinel"])
        if server.replica:
            raise self._named(ConfigurationError("", REPLICA))

    def _concerns_a_key(self, reply: ErrorReply) -> bool:
        """Other keys can be read anyway."""
        return code_of(reply) in ("WRONGTYPE", "DAMAGED") or (self._shares and code_of(reply) in ELSEWHERE)

    def _refused(self, command: Command, reply: ErrorReply) -> AiolockError:
        if code_of(reply) in ELSEWHERE:
            return ConfigurationError(
                "", "it is a node of a cluster, and knows only a part of the names: add --cluster"
            )
        return refused("", command[0], reply)

    async def inspect(self, inspections: Sequence[Inspection]) -> list[NameView | None]:
        """Return what it has of each; None of those that it does not know. Raises and costs what `read` does."""
        replies = await self.read([command for inspection in inspections for command in inspection.commands])
        views, at = [], 0
        for inspection in inspections:
            part = replies[at : at + len(inspection.commands)]
            at += len(part)
            errors = {code_of(reply) for reply in part if isinstance(reply, ErrorReply)}
            self.moving += not errors.isdisjoint(ELSEWHERE)
            views.append(None if errors & ELSEWHERE else inspection.decode(part, self.now_us))
        return views

    async def scan(self, pattern: str, most: int = 1000, of_type: str = "") -> AsyncIterator[list[str]]:
        """Yield the keys that match, some of them twice, as one request after another finds them.

        Raises:
            BackendError: it is unreachable, or refuses.

        Cost: a round trip for every `most` keys that the server has, whatever matches.
        """
        cursor, typed = "0", ("TYPE", of_type) if of_type else ()
        while True:
            match await self.read([("SCAN", cursor, "MATCH", pattern, "COUNT", str(most), *typed)]):
                case [[bytes() as following, list() as keys]]:
                    yield [name for key in keys if (name := _text(key)) is not None]
                    cursor = following.decode()
                case answer:
                    raise ValueError(f"SCAN answered {answer!r}")
            if cursor == "0":
                return

    def _set(self, clock: object) -> None:
        match clock:
            case [bytes() as seconds, bytes() as micros]:
                self.ahead_us = int(seconds) * 1_000_000 + int(micros) - time.time_ns() // 1000


def _text(key: object) -> str | None:
    """A key, unless it cannot be one of ours."""
    try:
        return key.decode() if isinstance(key, bytes) else None
    except UnicodeDecodeError:
        return None


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
