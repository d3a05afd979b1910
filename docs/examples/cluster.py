"""A Redis Cluster for the demo: three masters with a replica each, on loopback."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from binascii import crc_hqx
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from aiolock.testing.server import RedisServer, ServerError

MASTERS, SLOTS, BUS = 3, 16384, 10_000
NODE_TIMEOUT = 2.0  # seconds after which the others replace a master that does not answer
START_SECONDS = 30.0


class Cluster:
    """Six servers; the first three begin as masters, each with a third of the slots.

    Attributes:
        urls: of all servers.
    """

    def __init__(self, servers: list[RedisServer]) -> None:
        self._servers = servers
        self._links = [Redis.from_url(server.url) for server in servers]
        self._ids = [str(self._ask(at, "CLUSTER", "MYID")) for at in range(len(servers))]
        self.urls = [server.url for server in servers]

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Cluster]:
        """Start it, and wait until it serves. At the end no process and no file is left."""
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="aiolock-demo-cluster-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            servers = [stack.enter_context(_start(folder / str(number))) for number in range(2 * MASTERS)]
            cluster = cls(servers)
            stack.callback(cluster._disconnect)
            cluster._found()
            yield cluster

    def master_of(self, name: str) -> int:
        """Return the number of the master that has the lock of this name at first."""
        slot = crc_hqx(name.encode(), 0) % SLOTS
        return next(number for number in range(MASTERS) if slot < SLOTS * (number + 1) // MASTERS)

    def kill(self, number: int) -> None:
        """SIGKILL a server; its replica takes over once the others agree that it is gone."""
        self._servers[number].kill()

    def connections(self) -> int:
        """Return how many clients are connected to the servers that run, besides this object's."""
        others = 0
        for link in self._links:
            try:
                clients = [*link.client_list("normal"), *link.client_list("pubsub")]
            except RedisError:
                continue
            others += len(clients) - 1
        return others

    def _found(self) -> None:
        """Give each master its slots and a replica, and introduce everybody to everybody."""
        for number in range(MASTERS):
            first, end = SLOTS * number // MASTERS, SLOTS * (number + 1) // MASTERS
            self._ask(number, "CLUSTER", "ADDSLOTS", *range(first, end))
            self._ask(number, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for one, other in itertools.permutations(range(len(self._servers)), 2):
            server = self._servers[other]
            self._ask(one, "CLUSTER", "MEET", server.host, server.port, server.port + BUS)
        for number in range(MASTERS):
            _until(lambda number=number: self._ask(MASTERS + number, "CLUSTER", "REPLICATE", self._ids[number]))
        for at in range(len(self._servers)):
            _until(lambda at=at: self._serves(at))

    def _serves(self, at: int) -> bool:
        state, role = str(self._ask(at, "CLUSTER", "INFO")), self._links[at].info("replication")
        well = "cluster_state:ok" in state and f"cluster_known_nodes:{len(self._servers)}\r" in state
        return well and (role["role"] == "master" or role["master_link_status"] == "up")

    def _ask(self, at: int, *words: object) -> object:
        reply = self._links[at].execute_command(*words)
        return reply.decode() if isinstance(reply, bytes) else reply

    def _disconnect(self) -> None:
        for link in self._links:
            link.close()


def _start(folder: Path) -> RedisServer:
    folder.mkdir()
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(round(NODE_TIMEOUT * 1000)))
    while True:
        try:
            return RedisServer.start(*options, "--dir", str(folder), "--repl-diskless-sync-delay", "0")
        except ServerError as error:
            if "too high" not in str(error):  # the port is fine, but not the one for the bus, which is 10,000 higher
                raise


def _until(done: object) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            if done():  # type: ignore[operator]
                return
        except RedisError:
            pass
        time.sleep(0.02)
    raise TimeoutError(f"the cluster did not serve within {START_SECONDS:g} s")
