"""The first requests on a new connection: end the old one, and find out what the server is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from redis.exceptions import AuthenticationError

from ...errors import ConfigurationError
from .complaints import Complaints
from .connection import Link
from .failures import NOT_READY, ErrorReply, Misplaced, Unready, code_of
from .server_info import OLDEST, ServerInfo, fields_of

_OWN = re.compile(rb"(\w+)=(\S*)")
"""A field of CLIENT INFO."""
_INFO, _ROLE = 1, 2
_RIGHTS = (
    ("CLIENT INFO", "+client|info", "a request delayed on a lost connection may still run"),
    ("INFO", "+info", "the server's version and eviction policy are unknown"),
    ("ROLE", "+role", "so is whether it is the master, or a node of a cluster"),
    ("PUBLISH", "+publish", "those who wait for what is released here ask for it, and get no message"),
    ("PUBSUB NUMSUB", "+pubsub|numsub", "a process that was killed while it waited is still given its turn"),
)
"""Commands of the greeting, in its order: the right, and what is lost without it."""
Mode = Literal["standalone", "cluster", "sentinel"]
MISTAKEN = {
    "standalone": "the server is neither a Sentinel nor part of a cluster: use LockManager(url)",
    "cluster": "the server is part of a cluster: use LockManager.cluster([url, …])",
    "sentinel": "this is the address of a Sentinel, which keeps no locks: use LockManager.sentinel([(host, port), …], "
    "service=…)",
}
"""By what the server is, although something else is needed: what to do."""
REPLICA = "the server is a replica (READONLY), and the master keeps the locks: give the master's address"


class Identity(NamedTuple):
    """A connection as the server knows it. Ids start again when the server restarts, and are other clients' on other
    servers, so it takes the address, or the server's run id, to identify one.
    """

    id: bytes
    addr: bytes
    run_id: str

    def kill(self) -> tuple[bytes, ...]:
        """The command that ends it."""
        return (b"CLIENT", b"KILL", b"ID", self.id, *((b"ADDR", self.addr) if self.addr else ()))


class Handshake:
    """Remembers, for one backend, the previous connection and the warnings that were already logged.

    Args:
        replicas: how many are needed. Checked here instead of the memory, which the other backend checks. None if this
            is the only backend.
        mode: what the server must be.
        channel: one without listeners: whether messages may be published is asked there; "" to ask nothing.
        complaints: logs the warnings; None for its own.

    Attributes:
        complaints: as given.
        run_id: identifies the server, and tells it from itself before a restart; "" if it does not say.
    """

    def __init__(
        self,
        replicas: int | None = None,
        mode: Mode = "standalone",
        channel: str = "",
        complaints: Complaints | None = None,
    ) -> None:
        self._replicas = replicas
        self._mode = mode
        self._channel = channel
        self.run_id: str = ""
        self._previous: Identity | None = None
        self.complaints: Complaints = complaints or Complaints()

    def forget(self) -> None:
        """The last connection was closed in order: what it sent must run."""
        self._previous = None

    async def greet(self, link: Link, name: bytes = b"") -> None:
        """Nothing else may have been written on `link`.

        A request of the old connection may still be on its way, in a proxy or in the server's socket buffer, and would
        run after what is written here: so the server ends that connection first, if it is the same server.

        Args:
            link: the connection.
            name: what CLIENT LIST shows, unless the user has named it; it does not matter if the server refuses.

        Raises:
            ConfigurationError: the server is too old, or not of the kind that is needed.
            Misplaced: it is a replica.
            Unready: it answers, but nothing else for now.

        Cost: one round trip; another on a server that may still have the old connection, and one on Redis 6.0.
        """
        commands: list[tuple[str | bytes, ...]] = [(b"CLIENT", b"INFO"), (b"INFO",), (b"ROLE",)]
        if self._channel:
            commands += [(b"PUBLISH", self._channel, b""), (b"PUBSUB", b"NUMSUB", self._channel)]
        naming = [(b"CLIENT", b"SETNAME", name)] if name and not link.named else []
        replies = (await link.ask([*commands, *naming]))[: len(commands)]
        client, info, role = replies[:3]
        server = ServerInfo(fields_of(info), role)
        own = dict(_OWN.findall(client)) if isinstance(client, bytes) else {}
        _judge_readiness(replies, server)
        if server.outdated:
            version = server.fields["redis_version"]
            raise ConfigurationError("", f"the server is Redis {version}: Redis {OLDEST} or newer is needed")
        self._judge_kind(server)
        run_id = server.fields.get("run_id", "")
        self.run_id = run_id if len(set(run_id)) > 1 else ""  # some servers speak the protocol, but have no version
        if self._replicas is None:
            self._judge_memory(server)
        else:
            self._judge_replicas(server.fields.get("connected_slaves", ""), self._replicas)
        if self._previous is not None and self._previous.run_id == self.run_id:
            self._judge_kill(*await link.ask([self._previous.kill()]))
        id, addr = own.get(b"id", b""), own.get(b"addr", b"")
        if not id and self.run_id:  # Redis 6.0 has no CLIENT INFO
            (number,) = await link.ask([(b"CLIENT", b"ID")])
            id = b"%d" % number if isinstance(number, int) else b""
        self._previous = Identity(id, addr, self.run_id) if id and (addr or self.run_id) else None
        self._judge_rights(replies)

    def _judge_kind(self, server: ServerInfo) -> None:
        if server.mode in MISTAKEN and server.mode != self._mode:
            raise ConfigurationError("", MISTAKEN[server.mode])
        if server.replica:
            raise Misplaced(REPLICA)

    def _judge_rights(self, replies: Sequence[object]) -> None:
        """Say in one WARNING what is lost."""
        refused = [at for at, reply in enumerate(replies) if isinstance(reply, ErrorReply)]
        if refused[:1] == [0] and self._previous is not None:
            del refused[0]  # CLIENT ID says enough
        if _ROLE in refused and _INFO not in refused:
            refused.remove(_ROLE)  # INFO says it, too
        if refused:
            commands, rights, losses = zip(*(_RIGHTS[at] for at in refused), strict=True)
            self.complaints.make(
                f"{', '.join(commands)} refused (%s): {'; '.join(losses)}. Locks work without; allow the user "
                f"`{' '.join(rights)}`", replies[refused[0]],
            )  # fmt: skip

    def _judge_kill(self, reply: object) -> None:
        if isinstance(reply, ErrorReply) and "no such client" not in str(reply).lower():
            self.complaints.make(
                "CLIENT KILL was refused (%s): a request delayed on a lost connection may still run; allow the user "
                "`+client|kill`, or rely on fences", reply,
            )  # fmt: skip

    def _judge_memory(self, server: ServerInfo) -> None:
        if server.evicts:
            self.complaints.make(
                "the server evicts keys, and so locks, when its memory is full (maxmemory-policy %s): set it to "
                "noeviction, or give locks a server of their own", server.policy,
            )  # fmt: skip

    def _judge_replicas(self, connected: str, needed: int) -> None:
        if connected.isdecimal() and int(connected) < needed:
            self.complaints.make(
                "only %s replicas are connected to the master, fewer than min_replicas: no lock can be acquired until "
                "they are", connected,
            )  # fmt: skip


def _judge_readiness(replies: Sequence[object], server: ServerInfo) -> None:
    codes = {code_of(reply) for reply in replies if isinstance(reply, ErrorReply)}
    if server.fields.get("loading", "0") != "0":
        codes.add("LOADING")
    for code in codes & NOT_READY.keys():
        raise Unready(code)
    if "NOAUTH" in codes:  # without HELLO, Redis 7.0 answers nothing that redis-py takes for an error before this
        raise AuthenticationError("it wants a user and a password, and none was given")
