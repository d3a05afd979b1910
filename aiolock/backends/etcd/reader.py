"""What is in a cluster, for those who only look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from ...errors import AiolockError, BackendError
from ...scripts.keys import Keys, subject_of
from ...scripts.view import Command, Inspection, NameView
from ..base import nothing
from ..coordinator.paths import Paths
from ..coordinator.seen import see
from ..coordinator.store import Away, Refusal
from ..survey import Reader
from ..transactional.replies import matcher
from .address import EtcdAddress
from .cluster import EtcdCluster
from .link import Link
from .messages import STATUS
from .store import EtcdStore
from .wire import Message

KINDS = ("lock", "rw", "semaphore")


class MemberStatus(NamedTuple):
    """What a member says of itself.

    Attributes:
        address: host and port.
        version: of etcd.
        leads: whether it is the leader; None if it knows of none.
        alarms: what is wrong, in etcd's words.
    """

    address: str
    version: str
    leads: bool | None
    alarms: tuple[str, ...]


class EtcdReader(Reader):
    """Looks at queues; changes nothing. Raises the errors of a `Reader`.

    Args:
        url: of the cluster.
        timeout: seconds for each answer.
    """

    def __init__(self, url: str, timeout: float = 5.0) -> None:
        self._source = EtcdAddress(url)
        self.address: str = f"etcd {self._source.shown}"
        self.ahead_us: int = 1  # it has no clock to ask for
        self.moving: int = 0
        self._shares = False
        self._seconds = timeout
        self._store: EtcdStore | None = None

    async def read(self, commands: Sequence[Command]) -> list[object]:
        """Find out that the cluster is there: it knows none of a server's commands."""
        for _, key, *_ in commands[:1]:
            await self._use(key)
        return []

    async def inspect(self, inspections: Sequence[Inspection]) -> list[NameView | None]:
        """See `Reader.inspect`. Costs a round trip a name, and one a holder."""
        views = []
        for inspection in inspections:
            key = inspection.commands[0][1]
            kind, name = subject_of(key)
            views.append(await self._look(key, kind, name) if kind in KINDS else None)
        return views

    async def scan(self, pattern: str, most: int = 1000, of_type: str = "") -> AsyncIterator[list[str]]:
        """See `Reader.scan`; nothing here has a type of Redis. Costs a round trip for `most` places."""
        if of_type:
            return
        store, paths = await self._use(pattern), Paths(_namespace(pattern))
        matches, keys = matcher(pattern), Keys(_namespace(pattern))
        after = f"{paths.root}/"
        while after:
            try:
                found, after = await store.paths(after, f"{paths.root}0", most)
            except (Away, Refusal) as why:
                raise _error(why) from why
            names = {name for path in found if (name := paths.read(path)) != ("", "")}
            yield sorted(key for kind, name in names if matches(key := keys.of(kind, name).lock))

    async def statuses(self) -> list[MemberStatus | AiolockError]:
        """What each member says of itself, or why it says nothing."""
        found: list[MemberStatus | AiolockError] = []
        for host, port in self._source.members:
            cluster = EtcdCluster(self._source.only(host, port), "")
            try:
                link = await cluster.dial(self._seconds)
            except (Away, Refusal) as why:
                found.append(_error(why))
                continue
            try:
                found.append(await _status(link))
            except (Away, Refusal) as why:
                found.append(_error(why))
            finally:
                link.close()
        return found

    async def close(self) -> None:
        """Let go of the cluster."""
        store, self._store = self._store, None
        if store is not None:
            await store.aclose()

    async def _use(self, key: str) -> EtcdStore:
        if self._store is None:
            store = EtcdStore(EtcdCluster(self._source, Paths(_namespace(key)).mailbox("")))
            try:
                await store.open(nothing, nothing, nothing)
            except Away as why:
                await store.aclose()
                raise why.error from why
            self._store = store
        return self._store

    async def _look(self, key: str, kind: str, name: str) -> NameView | None:
        store = await self._use(key)
        try:
            return await see(store, Paths(_namespace(key)).of(kind, name), kind, name)
        except (Away, Refusal) as why:
            raise _error(why) from why


async def _status(link: Link) -> MemberStatus:
    answer = Message(await link.ask(STATUS, b""))
    leader, own = answer.number(4), answer.message(1).number(2)
    alarms = tuple(alarm.decode() for alarm in answer.texts(8))
    return MemberStatus(link.address, answer.data(2).decode(), leader == own if leader else None, alarms)


def _namespace(key: str) -> str:
    return key.partition(":{")[0].rpartition(":")[0].replace("\\", "")


def _error(why: Away | Refusal) -> AiolockError:
    return why.error if isinstance(why, Away) else BackendError("", f"etcd: {why}", transient=why.transient)
