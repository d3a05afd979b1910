"""A master, its replica, and three Sentinels on loopback, started by any user."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from aiolock.testing.server import RedisServer, ServerError

from . import redis_cli
from .access import OURS, Access, start
from .folder import Folder
from .replication import QUICKLY
from .scripting import wait_until

SERVICE = "mymaster"
COUNT, QUORUM = 3, 2
START_SECONDS = 30.0
USUAL_MS, OFTEN_MS = 10_000, 100
"""How often Sentinels ask each server what it is."""


class SentinelSet:
    """Two servers, one of them the master, and three Sentinels, two of which decide.

    Attributes:
        servers: the first master, and its first replica.
        sentinels: the Sentinels, which are servers, too.
        service: what they call the master.
        access: how the servers are reached.
        sentinel_access: how the Sentinels are.
    """

    service = SERVICE

    def __init__(
        self, servers: list[RedisServer], sentinels: list[RedisServer], access: Access, sentinel_access: Access
    ) -> None:
        self.servers = servers
        self.sentinels = sentinels
        self.access = access
        self.sentinel_access = sentinel_access
        self._links = {
            server.port: redis_cli.client(how.url(server), client_name=OURS)
            for group, how in ((servers, access), (sentinels, sentinel_access))
            for server in group
        }
        self._stopped: set[int] = set()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where the Sentinels are."""
        return [(sentinel.host, sentinel.port) for sentinel in self.sentinels]

    def link(self, server: RedisServer) -> redis.Redis:
        """A blocking client of one of the five."""
        return self._links[server.port]

    def url(self, server: RedisServer) -> str:
        """The address of a server, with its password."""
        return self.access.url(server)

    def role(self, server: RedisServer) -> str:
        """What a server takes itself for: "master" or "slave"."""
        return str(self._info(server)["role"])

    def named(self) -> list[int]:
        """The ports that the Sentinels that run name as the master's."""
        found = []
        for sentinel in self._running(self.sentinels):
            address: Any = self.link(sentinel).sentinel_get_master_addr_by_name(SERVICE)
            found.append(int(address[1]))
        return found

    def master(self) -> RedisServer:
        """The server that most Sentinels name."""
        named = self.named()
        return next(server for server in self.servers if named.count(server.port) >= QUORUM)

    def replica(self) -> RedisServer:
        """The other server."""
        master = self.master()
        return next(server for server in self.servers if server is not master)

    def clients(self, server: RedisServer) -> int:
        """How many clients are connected to one of the five, besides that of this object and Sentinels."""
        found = self.link(server).client_list(_type="normal")
        return sum(client["name"] != OURS and not client["name"].startswith("sentinel-") for client in found)

    # Faults.

    def failover(self) -> RedisServer:
        """Order a graceful failover; return the server that will be the master, which it is not yet."""
        replica = self.replica()
        wait_until(self._ordered, START_SECONDS)
        return replica

    async def failed_over(self, new: RedisServer) -> None:
        """Wait until all Sentinels that run name the new master."""
        running = self._running(self.sentinels)
        await self.promoted(new)
        await self.until(lambda: self.named() == [new.port] * len(running))

    async def promoted(self, new: RedisServer) -> None:
        """Wait until a server takes itself for the master; Sentinels hear of it a second later."""
        await self.until(lambda: self._is_master(new))

    async def settled(self) -> None:
        """Wait until there is one master, with a replica that has caught up.

        The old master is told to be that replica. The Sentinels would do so ten seconds after they named the new one.
        """
        await self.until(self.agree)

    def kill(self, server: RedisServer) -> None:
        """SIGKILL one of the five."""
        self._stopped.add(server.port)
        server.kill()

    def freeze(self, server: RedisServer) -> None:
        """SIGSTOP one of the five."""
        self._stopped.add(server.port)
        server.freeze()

    def thaw(self, server: RedisServer) -> None:
        """Let it continue after `freeze`."""
        server.thaw()
        self._stopped.discard(server.port)

    def restart(self, server: RedisServer) -> None:
        """Start it again after `kill`, on the same port: a server is empty then, and what it was at first."""
        server.restart()
        self._stopped.discard(server.port)

    async def until(self, check: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Ask again and again, in another thread: servers may be slow, and the loop has locks to renew."""
        async with asyncio.timeout(seconds):
            while not await asyncio.to_thread(check):  # noqa: ASYNC110 - servers announce nothing
                await asyncio.sleep(0.01)

    # Between tests.

    def ok(self) -> bool:
        """All run, all Sentinels know each other and name one master, and take its replica for one that is fit to
        follow it.
        """
        if self._stopped:
            return False
        try:
            return self._ok()
        except redis.exceptions.RedisError:
            return False

    def _ok(self) -> bool:
        named = self.named()
        if len(set(named)) != 1:
            return False
        master, replica = self.master(), self.replica()
        if self._info(master)["role"] != "master" or self._info(replica).get("master_link_status") != "up":
            return False
        return all(self._sees(sentinel) for sentinel in self.sentinels)

    def _sees(self, sentinel: RedisServer) -> bool:
        link = self.link(sentinel)
        state: Any = link.sentinel_master(SERVICE)
        replicas: Any = link.sentinel_slaves(SERVICE)
        well = state["flags"] in ("master", {"master"}) and int(state["num-other-sentinels"]) == COUNT - 1
        if not well or [replica["flags"] for replica in replicas] not in (["slave"], [{"slave"}]):
            return False
        # A Sentinel that takes it for a master would soon undo its promotion (+convert-to-slave).
        return self.reported(sentinel) == "slave"

    def reported(self, sentinel: RedisServer) -> str:
        """What the replica said that it is, when the Sentinel last asked it: "master" or "slave"."""
        (replica,) = self.link(sentinel).sentinel_slaves(SERVICE)
        return str(replica["role-reported"])

    def calm(self) -> None:
        """Make everybody run, with one master and one replica, and delete every key."""
        for server in (*self.servers, *self.sentinels):
            if server.port in self._stopped:
                try:
                    self.thaw(server)
                except ServerError:
                    self.restart(server)
        wait_until(self.agree, START_SECONDS)
        self.flush()

    def flush(self) -> None:
        """Delete every key."""
        self.link(self.master()).flushall()

    def agree(self) -> bool:
        """Whether there is one master, with a replica that has caught up.

        After a failover the old master would become a replica only ten seconds later.
        """
        named = self.named()
        if len(set(named)) == 1 and not self._failing_over():
            master, other = self.master(), self.replica()
            if self.role(master) == self.role(other) == "master":
                self.link(other).replicaof(master.host, str(master.port))
        agreed = self.ok()
        self._ask_every(USUAL_MS if agreed else OFTEN_MS)
        return agreed

    def close(self) -> None:
        for server in (*self.sentinels, *self.servers):
            self.link(server).close()
            server.kill()
            server.stop()

    def _ask_every(self, ms: int) -> None:
        """How often Sentinels ask servers what they are; before Redis 7 that cannot be changed."""
        for sentinel in self._running(self.sentinels):
            with contextlib.suppress(redis.exceptions.ResponseError):
                self.link(sentinel).execute_command("SENTINEL", "DEBUG", "INFO-PERIOD", ms)

    def _failing_over(self) -> bool:
        states: list[Any] = [self.link(sentinel).sentinel_master(SERVICE) for sentinel in self.sentinels]
        return any("failover_in_progress" in state["flags"] for state in states)

    def _ordered(self) -> bool:
        try:
            self.link(self._running(self.sentinels)[0]).execute_command("SENTINEL", "FAILOVER", SERVICE)
        except redis.exceptions.ResponseError as error:
            if "NOGOODSLAVE" in str(error) or "INPROG" in str(error):  # it has not yet heard of its health
                return False
            raise
        return True

    def _is_master(self, server: RedisServer) -> bool:
        try:
            return self.role(server) == "master"
        except redis.exceptions.ConnectionError:  # whoever is promoted cuts its clients
            return False

    def _running(self, servers: list[RedisServer]) -> list[RedisServer]:
        return [server for server in servers if server.port not in self._stopped]

    def _info(self, server: RedisServer) -> dict[str, Any]:
        return self.link(server).info("replication")  # type: ignore[return-value]


@contextlib.contextmanager
def start_sentinels(
    down_after: float = 2.0,
    failover_timeout: float = 6.0,
    password: str = "",
    sentinel_password: str = "",
    certificate: Path | None = None,
) -> Iterator[SentinelSet]:
    """Start all five, and return once a failover would succeed. Stop them at the end.

    Args:
        down_after: seconds after which a Sentinel takes a silent master for dead. It may need one second before it asks
            a new master for the first time, so it needs more than that.
        failover_timeout: seconds, of the Sentinels; they try no second failover before twice that has passed.
        password: of the servers.
        sentinel_password: of the Sentinels.
        certificate: that of all five; then all speak TLS.
    """
    access, sentinel_access = Access(password, certificate), Access("", certificate)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(Folder())
        master = stack.enter_context(start(access, *QUICKLY))
        if master.kind == "docker":
            pytest.skip("containers cannot reach each other on this machine's loopback")
        with redis_cli.client(access.url(master)) as link:
            if sentinel_password and redis_cli.product(link)[1].startswith("6.0."):
                pytest.skip("its Sentinels know no passwords")
        follow = ("--replicaof", master.host, str(master.port))
        replica = stack.enter_context(start(access, *QUICKLY, *follow))
        lines = [
            f"sentinel monitor {SERVICE} {master.host} {master.port} {QUORUM}",
            f"sentinel down-after-milliseconds {SERVICE} {round(down_after * 1000)}",
            f"sentinel failover-timeout {SERVICE} {round(failover_timeout * 1000)}",
            f"sentinel known-replica {SERVICE} {replica.host} {replica.port}",
        ]
        if password:
            lines.append(f"sentinel auth-pass {SERVICE} {password}")
        if sentinel_password:
            lines += [f"requirepass {sentinel_password}", f"sentinel sentinel-pass {sentinel_password}"]
        watching = [_sentinel(stack, folder, lines, sentinel_access) for _ in range(COUNT)]
        started = SentinelSet([master, replica], watching, access, Access(sentinel_password, certificate))
        stack.callback(started.close)
        wait_until(started.ok, START_SECONDS)
        yield started


def _sentinel(stack: contextlib.ExitStack, folder: Path, lines: list[str], access: Access) -> RedisServer:
    own = folder / secrets.token_hex(4)
    own.mkdir()
    file = own / "sentinel.conf"
    file.write_text("\n".join([f"dir {own}", *lines, ""]))
    return stack.enter_context(start(access, str(file), "--sentinel"))
