"""A real Redis Cluster for tests, demos and benchmarks: started on free ports, and never left behind."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from ..backends.cluster.slots import SLOTS, slot_of
from ..scripts.keys import Keys
from .server import RedisServer, ServerError

_BUS = 10_000
"""How much higher the port is on which the servers of a cluster talk to each other."""
_START_SECONDS = 30.0


class RedisCluster:
    """Masters that share the slots evenly, and their replicas, on the loopback interface.

    The servers come from where a `RedisServer` of your own does; containers cannot form a cluster. They store nothing
    on disk, and are killed when this process ends, even by SIGKILL.

    Example:
        >>> with RedisCluster.start() as cluster:
        ...     manager = LockManager.cluster(cluster.urls)

    Attributes:
        servers: the masters, and then their replicas in the same order. You may kill and freeze them; if you restart
            one, it comes back as a stranger.
        urls: their URLs.
    """

    def __init__(self, servers: list[RedisServer], stack: ExitStack) -> None:
        self.servers: list[RedisServer] = servers
        self.urls: list[str] = [server.url for server in servers]
        self._stack = stack

    @classmethod
    def start(cls, masters: int = 3, replicas: int = 1, *, node_timeout: float = 2.0) -> RedisCluster:
        """Start the servers, and return once they serve, which takes some three seconds; blocks.

        Args:
            masters: how many have slots.
            replicas: how many follow each of them.
            node_timeout: seconds after which the others replace a master that does not answer.

        Raises:
            ServerError: no server was found, or they do not form a cluster.
        """
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(round(node_timeout * 1000)))
        with ExitStack() as stack:
            servers = [stack.enter_context(_start(options)) for _ in range(masters * (1 + replicas))]
            with ExitStack() as links:
                _form([links.enter_context(_connect(server.url)) for server in servers], servers, masters)
            return cls(servers, stack.pop_all())

    def master_of(self, name: str) -> RedisServer:
        """Return the master that has the locks of this name now, as a server that runs says.

        Raises:
            ServerError: none does, or none runs.
        """
        slot = slot_of(Keys("any").of("lock", name).lock)
        for url in self.urls:
            with suppress(RedisError), _connect(url) as link:
                for first, last, (_, port, *_), *_ in _ask(link, "CLUSTER", "SLOTS"):
                    if first <= slot <= last:
                        return next(server for server in self.servers if server.port == port)
        raise ServerError(f"no server that runs knows who has slot {slot}")

    def stop(self) -> None:
        """End all servers; return when they are gone."""
        self._stack.close()

    def __enter__(self) -> RedisCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<RedisCluster {' '.join(str(server.port) for server in self.servers)}>"


def _form(links: list[Redis], servers: list[RedisServer], masters: int) -> None:
    """Give each master its slots and its replicas, and introduce everybody to everybody."""
    ids = [_ask(link, "CLUSTER", "MYID").decode() for link in links]
    for number, link in enumerate(links[:masters]):
        first, end = SLOTS * number // masters, SLOTS * (number + 1) // masters
        _ask(link, "CLUSTER", "ADDSLOTS", *range(first, end))
        _ask(link, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for link, server in itertools.product(links, servers):  # so that nobody waits for gossip
        _ask(link, "CLUSTER", "MEET", server.host, server.port, server.port + _BUS)
    for number, link in enumerate(links[masters:]):
        _until(partial(_ask, link, "CLUSTER", "REPLICATE", ids[number % masters]))
    for link in links:
        _until(partial(_serves, link, len(servers)))


def _serves(link: Redis, servers: int) -> bool:
    state: bytes = _ask(link, "CLUSTER", "INFO")
    replication: Any = link.info("replication")
    well = b"cluster_state:ok" in state and b"cluster_known_nodes:%d\r" % servers in state
    return well and (replication["role"] == "master" or replication["master_link_status"] == "up")


def _start(options: tuple[str, ...]) -> RedisServer:
    while True:
        try:
            server = RedisServer.start(*options, "--repl-diskless-sync-delay", "0")
        except ServerError as error:
            if "too high" in str(error):  # the port of the bus would be
                continue
            raise
        if server.kind == "docker":
            server.stop()
            raise ServerError("containers cannot reach each other on this machine's loopback interface")
        return server


def _connect(url: str) -> Redis:
    return Redis.from_url(url, socket_timeout=5.0)


def _ask(link: Redis, *words: object) -> Any:
    return link.execute_command(*words)  # type: ignore[no-untyped-call]


def _until(done: Callable[[], Any]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            if done():
                return
        except RedisError:  # they have not met yet
            pass
        time.sleep(0.02)
    raise ServerError(f"the servers did not form a cluster within {_START_SECONDS:g} s")
