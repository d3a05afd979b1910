"""One server of a cluster on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiolock.testing.server import RedisServer, ServerError

from . import redis_cli
from .access import OPEN, OURS, Access, start
from .installed import at_least
from .replication import QUICKLY

BUS = 10_000
"""How much higher the port is on which the servers of a cluster talk to each other."""
_ATTEMPTS = 20


class ClusterNode:
    """A server that may be killed, frozen and restarted; it remembers its cluster across restarts.

    Attributes:
        server: the process.
        url: its address.
        link: a blocking client of this server alone. It follows no redirection.
        id: what the cluster calls it.
        running: False while it is killed or frozen.
    """

    def __init__(self, folder: Path, *options: str, access: Access = OPEN) -> None:
        self.server = _start(folder, options, access)
        self.url = access.url(self.server)
        self.link = redis_cli.client(self.url, client_name=OURS)
        self.id = self.text("CLUSTER", "MYID")
        self.running = True

    def __repr__(self) -> str:
        return f"<ClusterNode {self.server.port} {self.role if self.running else 'not running'}>"

    @property
    def address(self) -> tuple[str, int]:
        return self.server.host, self.server.port

    @property
    def role(self) -> str:
        """What it takes itself for: "master" or "slave"."""
        return self.text("ROLE").partition("\n")[0]

    @property
    def linked(self) -> bool:
        """It has caught up with its master, or is one."""
        found: dict[str, Any] = self.link.info("replication")  # type: ignore[assignment]
        return found["role"] == "master" or found["master_link_status"] == "up"

    @property
    def replicas(self) -> int:
        """How many replicas are connected to it and have caught up."""
        found: dict[str, Any] = self.link.info("replication")  # type: ignore[assignment]
        states = [state for key, state in found.items() if key.startswith("slave") and isinstance(state, dict)]
        return sum(state["state"] == "online" for state in states)

    def ask(self, *words: object) -> Any:
        """Send one command to this server, and return the reply as it came, in bytes.

        Raises:
            redis.exceptions.ResponseError: it was refused; MOVED, for example.
        """
        older = () if at_least("redis", 5, 3) else ("_",)
        connection: Any = self.link.connection_pool.get_connection(*older)
        try:
            connection.send_command(*words)
            return connection.read_response()
        finally:
            self.link.connection_pool.release(connection)

    def text(self, *words: object) -> str:
        """The reply as text; of an array the elements, line by line."""
        return "\n".join(_texts(self.ask(*words)))

    def kill(self) -> None:
        """SIGKILL."""
        self.running = False
        self.server.kill()

    def freeze(self) -> None:
        """SIGSTOP: connections stay, nothing is answered."""
        self.running = False
        self.server.freeze()

    def thaw(self) -> None:
        """Let it continue after `freeze`."""
        self.server.thaw()
        self.running = True

    def restart(self) -> None:
        """Start it again after `kill`, on the same port: empty, and as a member of its cluster."""
        self.server.restart()
        self.running = True

    def resume(self) -> None:
        """Let it run again, whether it was killed or frozen."""
        try:
            self.thaw()
        except ServerError:
            self.restart()

    def forget(self) -> None:
        """Let a replica lose every key, as if its master had not yet sent any; it follows on."""
        self.ask("CONFIG", "SET", "replica-read-only", "no")
        self.ask("FLUSHALL")
        self.ask("CONFIG", "SET", "replica-read-only", "yes")

    def close(self) -> None:
        """End it at once: a master that is asked politely waits for its replicas."""
        self.running = False
        self.link.close()
        self.server.kill()
        self.server.stop()


def _start(folder: Path, options: tuple[str, ...], access: Access) -> RedisServer:
    for _ in range(_ATTEMPTS):
        own = folder / str(len(list(folder.iterdir())))
        own.mkdir()
        try:
            server = start(access, "--cluster-enabled", "yes", "--dir", str(own), *QUICKLY, *options)
        except ServerError as error:
            if "too high" in str(error):  # the port of the bus would be
                continue
            raise
        if server.kind == "docker":
            server.stop()
            pytest.skip("containers cannot reach each other on this machine's loopback")
        return server
    raise AssertionError(f"no port below {65_536 - BUS} in {_ATTEMPTS} attempts")


def _texts(reply: Any) -> list[str]:
    if isinstance(reply, list):
        return [text for part in reply for text in _texts(part)]
    return [reply.decode() if isinstance(reply, bytes) else str(reply)]
