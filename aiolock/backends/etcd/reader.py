"""What is in a cluster, and what its members say of themselves, for those who only look."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import AiolockError
from ..coordinator.paths import Paths
from ..coordinator.reader import CoordinatorReader
from ..coordinator.store import Away, Refusal
from .address import EtcdAddress
from .cluster import EtcdCluster
from .link import Link
from .messages import STATUS
from .store import EtcdStore
from .wire import Message


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


class EtcdReader(CoordinatorReader):
    """Looks at a cluster; changes nothing.

    Args:
        url: of the cluster.
        timeout: seconds for each answer.
    """

    def __init__(self, url: str, timeout: float = 5.0) -> None:
        self._source = EtcdAddress(url)
        self._seconds = timeout
        super().__init__(f"etcd {self._source.shown}", self._made)

    def _made(self, paths: Paths) -> EtcdStore:
        return EtcdStore(EtcdCluster(self._source, paths.mailbox("")))

    async def statuses(self) -> list[MemberStatus | AiolockError]:
        """What each member says of itself, or why it says nothing."""
        found: list[MemberStatus | AiolockError] = []
        for host, port in self._source.members:
            cluster = EtcdCluster(self._source.only(host, port), "")
            try:
                link = await cluster.dial(self._seconds)
            except (Away, Refusal) as why:
                found.append(self._error(why))
                continue
            try:
                found.append(await _status(link))
            except (Away, Refusal) as why:
                found.append(self._error(why))
            finally:
                link.close()
        return found


async def _status(link: Link) -> MemberStatus:
    answer = Message(await link.ask(STATUS, b""))
    leader, own = answer.number(4), answer.message(1).number(2)
    alarms = tuple(alarm.decode() for alarm in answer.texts(8))
    return MemberStatus(link.address, answer.data(2).decode(), leader == own if leader else None, alarms)
