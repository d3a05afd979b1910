"""A master and its replica on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import pytest
import redis

from aiolock.testing.server import RedisServer

from . import redis_cli

# With this the replica is served as soon as it has loaded, and not a second later with its first acknowledgement.
QUICKLY = ("--repl-diskless-sync", "no", "--repl-diskless-load", "swapdb")


class Pair:
    """A master, and the one replica that follows it.

    Attributes:
        master: the server that clients use.
        replica: freeze it, or promote it.
        url: the master's.
        link: a blocking client of the master.
    """

    def __init__(self, master: RedisServer, replica: RedisServer, link: redis.Redis) -> None:
        self.master = master
        self.replica = replica
        self.url = master.url
        self.link = link

    def follow(self) -> None:
        """Make the replica follow, and return once it acknowledges."""
        with redis_cli.client(self.replica.url) as replica:
            replica.replicaof(self.master.host, str(self.master.port))
        until = time.monotonic() + 20.0
        while not self.acknowledged():
            assert time.monotonic() < until, "the replica does not follow"

    def acknowledged(self) -> bool:
        """Whether the replica has the last write, after 0.1 s at most."""
        with self.link.pipeline(transaction=False) as pipe:
            _, replicas = pipe.publish("nobody", "").execute_command("WAIT", 1, 100).execute()
        return replicas == 1

    async def exchange(self) -> None:
        """Let the replica be the master, and the master its replica; return once that has caught up.

        `master`, `replica` and `link` keep their names.
        """
        self.leave()
        self.link.replicaof(self.replica.host, str(self.replica.port))
        async with asyncio.timeout(20):
            while self.link.info("replication").get("master_link_status") != "up":  # type: ignore[union-attr]  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def leave(self) -> None:
        """Detach the replica: it takes nothing more from the master, and accepts writes."""
        with redis_cli.client(self.replica.url) as replica:
            replica.replicaof("NO", "ONE")

    def swap(self) -> None:
        """Promote the replica, and let the master follow it: an orderly failover, in which no connection is cut."""
        self.leave()
        self.link.replicaof(self.replica.host, str(self.replica.port))

    def calm(self) -> None:
        """Let the replica resume and catch up."""
        self.replica.thaw()
        if not self.acknowledged():
            self.follow()

    async def waited_for(self, clients: int = 1) -> None:
        """Return once this many clients of the master wait for the replica."""
        async with asyncio.timeout(10):
            while self.blocked() != clients:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.002)

    def blocked(self) -> int:
        """How many clients of the master are blocked."""
        return int(self.link.info("clients")["blocked_clients"])  # type: ignore[index, arg-type]


@contextlib.contextmanager
def pair() -> Iterator[Pair]:
    """Start both; stop them at the end."""
    with contextlib.ExitStack() as stack:
        master, replica = (stack.enter_context(RedisServer.start(*QUICKLY)) for _ in range(2))
        if master.kind == "docker":
            pytest.skip("a container cannot follow a server on this machine's loopback")
        started = Pair(master, replica, stack.enter_context(redis_cli.client(master.url)))
        if redis_cli.product(started.link)[0] == "KeyDB":
            pytest.skip("KeyDB crashes in WAIT")
        started.follow()
        yield started
