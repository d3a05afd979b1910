"""The first requests on a new connection: end the old one, and find out what the server is."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import ConfigurationError
from ...log import Log
from .connection import Link
from .error_reply import ErrorReply

logger: Log = Log("aiolock.redis")

OLDEST = 6


class Identity(NamedTuple):
    """A connection as the server knows it. Ids start again when the server restarts, so only both together identify
    one.
    """

    id: bytes
    addr: bytes


class Handshake:
    """Remembers, for one backend, the previous connection and the warnings that were already logged.

    Args:
        replicas: how many are needed. Checked here instead of the memory, which the other backend checks.

    Attributes:
        run_id: identifies the server, and tells it from itself before a restart; "" if it does not say.
    """

    def __init__(self, replicas: int = 0) -> None:
        self._replicas = replicas
        self.run_id: str = ""
        self._previous: Identity | None = None
        self._complaints: set[str] = set()

    def forget(self) -> None:
        """The last connection was closed in order: what it sent must run."""
        self._previous = None

    async def greet(self, link: Link) -> None:
        """One round trip; nothing else may have been written on `link`.

        A request of the old connection may still be on its way, in a proxy or in the server's socket buffer, and would
        run after what is written here: so the server ends that connection first.

        Raises:
            ConfigurationError: the server is too old.
        """
        section = b"replication" if self._replicas else b"memory"
        commands: list[tuple[bytes, ...]] = [(b"CLIENT", b"INFO"), (b"INFO", b"server"), (b"INFO", section)]
        if self._previous is not None:
            kill = (b"CLIENT", b"KILL", b"ID", self._previous.id, b"ADDR", self._previous.addr)
            commands.insert(0, kill)
        replies = await link.ask(commands)
        if self._previous is not None:
            self._judge_kill(replies.pop(0))
        server = _fields(replies[1], b"\r\n", b":")
        self._judge_version(server)
        run_id = server.get(b"run_id", b"").decode(errors="replace")
        self.run_id = run_id if len(set(run_id)) > 1 else ""  # some servers speak the protocol, but have no version
        about = _fields(replies[2], b"\r\n", b":")
        if self._replicas:
            self._judge_replicas(about)
        else:
            self._judge_memory(about)
        client = _fields(replies[0], b" ", b"=")
        self._previous = Identity(client[b"id"], client[b"addr"]) if b"id" in client and b"addr" in client else None

    def _judge_kill(self, reply: object) -> None:
        if isinstance(reply, ErrorReply) and "no such client" not in str(reply).lower():
            self._complain(
                "CLIENT KILL was refused (%s): a request delayed on a lost connection may still run; allow the user "
                "`+client|kill`, or rely on fences", reply,
            )  # fmt: skip

    def _judge_version(self, info: dict[bytes, bytes]) -> None:
        version = info.get(b"redis_version", b"").decode(errors="replace")
        major = version.partition(".")[0]
        if major.isdecimal() and int(major) < OLDEST:
            raise ConfigurationError("", f"the server is Redis {version}: Redis {OLDEST} or newer is needed")

    def _judge_memory(self, info: dict[bytes, bytes]) -> None:
        policy = info.get(b"maxmemory_policy", b"noeviction").decode(errors="replace")
        if info.get(b"maxmemory", b"0") != b"0" and policy != "noeviction":
            self._complain(
                "the server evicts keys, and so locks, when its memory is full (maxmemory-policy %s): set it to "
                "noeviction, or give locks a server of their own", policy,
            )  # fmt: skip

    def _judge_replicas(self, info: dict[bytes, bytes]) -> None:
        connected = info.get(b"connected_slaves", b"").decode(errors="replace")
        if connected.isdecimal() and int(connected) < self._replicas:
            self._complain(
                "only %s replicas are connected to the master, fewer than min_replicas: no lock can be acquired until "
                "they are", connected,
            )  # fmt: skip

    def _complain(self, message: str, detail: object) -> None:
        if message not in self._complaints:
            self._complaints.add(message)
            logger.warning(message, detail)


def _fields(reply: object, between: bytes, assign: bytes) -> dict[bytes, bytes]:
    """The fields of an INFO; none if the server has none or allows none."""
    if not isinstance(reply, bytes):
        return {}
    pairs = (field.strip().partition(assign) for field in reply.split(between))
    return {key: value for key, found, value in pairs if found}
