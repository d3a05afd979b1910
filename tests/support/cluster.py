"""A real cluster on loopback, started by any user."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Literal

import redis
from redis.crc import key_slot

from .access import OPEN, OURS, Access
from .cluster_node import BUS, ClusterNode
from .folder import Folder
from .scripting import wait_until
from .stepped_clock import SteppedClock

SLOTS = 16384
START_SECONDS = 30.0
VOTING_TIMEOUT = 1.5
ORDER_SECONDS = 6.5
"""Until Redis 7.2 a master votes for the replicas of one master only once in twice the node timeout, and a replica asks
again after four times that; but it gives up what was ordered after five seconds.
"""
DEBUGGING = ("--enable-debug-command", "yes")
"""An option of servers since Redis 7.0: see `Cluster.isolate`."""


class Cluster:
    """Masters that share the slots evenly, and their replicas.

    Attributes:
        nodes: those that were masters first, then their replicas in the same order.
        node_timeout: seconds after which they replace one that does not answer.
    """

    def __init__(self, nodes: list[ClusterNode], node_timeout: float) -> None:
        self.nodes = nodes
        self.node_timeout = node_timeout
        self._ordered: tuple[str, ...] = ()

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    @property
    def running(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.running]

    @property
    def masters(self) -> list[ClusterNode]:
        """The servers that have slots, by what those that run agree on."""
        owners = {owner for _, _, owner in self._map(self.running[0])}
        return [node for node in self.nodes if node.id in owners]

    @staticmethod
    def slot(key: str) -> int:
        """The slot of a key, or of a name that is used as a tag."""
        return key_slot(key.encode())

    def names_on(self, node: ClusterNode, count: int = 1) -> list[str]:
        """Names whose keys are on this master, each in a slot of its own."""
        ranges = [(first, last) for first, last, owner in self._map(node) if owner == node.id]
        found: dict[int, str] = {}
        numbers = itertools.count()
        while len(found) < count:
            name = f"n{next(numbers)}"
            if any(first <= self.slot(name) <= last for first, last in ranges):
                found.setdefault(self.slot(name), name)
        return list(found.values())

    def master_of(self, key: str) -> ClusterNode:
        """The master that has the key's slot, by what the servers that run say of themselves."""
        slot = self.slot(key)
        for node in self.running:
            if self._has(node, slot):
                return node
        raise AssertionError(f"no server that runs has the slot {slot} of {key!r}")

    def replica_of(self, master: ClusterNode) -> ClusterNode:
        """A replica of this master."""
        for node in self.running:
            words = node.text("ROLE").split("\n")
            if words[0] == "slave" and words[2] == str(master.server.port):
                return node
        raise AssertionError(f"{master} has no replica")

    # Faults.

    def failover(self, master: ClusterNode, how: Literal["", "FORCE", "TAKEOVER"] = "") -> ClusterNode:
        """Order a replica of this master to take its place; return the replica, which has not yet done so: see
        `failed_over`.
        """
        replica = self.replica_of(master)
        self._ordered = ("CLUSTER", "FAILOVER", *filter(None, [how]))
        self._set_timeout(min(VOTING_TIMEOUT, self.node_timeout))
        replica.ask(*self._ordered)
        return replica

    async def failed_over(self, old: ClusterNode, new: ClusterNode) -> None:
        """Wait until the new master is one, and everybody that runs knows; order it again if nothing comes of it."""
        loop = asyncio.get_running_loop()
        order_at = loop.time() + ORDER_SECONDS

        def done() -> bool:
            nonlocal order_at
            if new.role == "master":
                return self.ok() and old not in self.masters
            if loop.time() > order_at:
                order_at = loop.time() + ORDER_SECONDS
                new.ask(*self._ordered)
            return False

        await self.until(done, 2 * START_SECONDS)
        self._set_timeout(self.node_timeout)

    @property
    def can_isolate(self) -> bool:
        """Whether these servers can do it."""
        return "-2 to drop all" in self.nodes[0].text("DEBUG", "HELP")

    def isolate(self, master: ClusterNode) -> ClusterNode:
        """Let a master hear nothing more from the other servers, and put a replica in its place; return the replica.

        The old master goes on serving its clients until the cluster's node timeout is over. The servers must have been
        started with `DEBUGGING`, and `can_isolate`.
        """
        master.ask("DEBUG", "DROP-CLUSTER-PACKET-FILTER", -2)
        return self.failover(master, "TAKEOVER")

    def rejoin(self, master: ClusterNode) -> None:
        """End `isolate`."""
        master.ask("DEBUG", "DROP-CLUSTER-PACKET-FILTER", -1)
        for other in self.nodes:  # or it would wait for answers that were dropped
            if other is not master:
                master.ask("DEBUG", "CLUSTERLINK", "KILL", "ALL", other.id)

    def move_slot(self, slot: int, to: ClusterNode) -> None:
        """Bring a slot and its keys to another master."""
        for _ in self.moving(slot, to):
            pass

    def moving(self, slot: int, to: ClusterNode) -> Iterator[str]:
        """Move a slot step by step: what was done is yielded, so that a test can stop there, or let the rest wait.

        The steps are "importing", "migrating", every key's name, "assigned" once the target has the slot, and "known"
        once the source and the other masters have been told.
        """
        source = next(node for node in self.masters if self._has(node, slot))
        if source is to:
            return
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        yield "importing"
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        yield "migrating"
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1):
            with contextlib.suppress(redis.exceptions.ResponseError):  # it has just expired
                source.ask("MIGRATE", *to.address, keys[0], 0, 5000)
            yield keys[0].decode()
        for node in (to, source, *(other for other in self.masters if other not in (to, source))):
            if node.running:
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", to.id)
            if node is to:
                yield "assigned"
        yield "known"

    # Waiting.

    def ok(self) -> bool:
        """Every server that runs knows the others, agrees on who has which slot, and serves; the replicas have caught
        up.
        """
        try:
            if not all(self._serves(node) for node in self.running):  # the first that does not is enough to know
                return False
            maps = [self._map(node) for node in self.running]
            linked = all(node.linked for node in self.running)
        except redis.exceptions.RedisError:
            return False
        served = sum(last - first + 1 for first, last, _ in maps[0]) == SLOTS
        return served and linked and all(one == maps[0] for one in maps)

    def _serves(self, node: ClusterNode) -> bool:
        said = node.text("CLUSTER", "INFO")
        return "cluster_state:ok" in said and f"cluster_known_nodes:{len(self.nodes)}\r" in said

    async def until(self, check: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Ask again and again, in another thread: servers may be slow, and the loop has locks to renew."""
        try:
            async with asyncio.timeout(seconds):
                while not await asyncio.to_thread(check):  # noqa: ASYNC110 - servers announce nothing
                    await asyncio.sleep(0.01)
        except TimeoutError:
            said = [node.text(*words) for node in self.running for words in (("CLUSTER", "NODES"), ("ROLE",))]
            raise AssertionError("\n".join([f"not true after {seconds} s; the servers said:", *said])) from None

    # Between tests.

    def calm(self) -> None:
        """Make everybody run and agree, and delete every key."""
        for node in self.nodes:
            if not node.running:
                node.resume()
        self._set_timeout(self.node_timeout)
        for node in self.nodes:
            if node.role == "master":
                for slot in _open_slots(node):
                    node.ask("CLUSTER", "SETSLOT", slot, "STABLE")
        wait_until(self.ok, START_SECONDS)
        self.flush()

    def flush(self) -> None:
        """Delete every key."""
        for node in self.masters:
            node.ask("FLUSHALL")

    def keys(self) -> set[str]:
        """Every key on every master."""
        return {key.decode(errors="surrogateescape") for node in self.masters for key in node.ask("KEYS", "*")}

    def clients(self) -> int:
        """How many clients are connected to all servers that run, besides those of this object and of the servers."""
        types = ("NORMAL", "PUBSUB")
        lists = [node.text("CLIENT", "LIST", "TYPE", type) for node in self.running for type in types]
        return sum(f" name={OURS} " not in line for lines in lists for line in lines.splitlines())

    def _set_timeout(self, seconds: float) -> None:
        for node in self.running:
            node.ask("CONFIG", "SET", "cluster-node-timeout", round(seconds * 1000))

    def _has(self, node: ClusterNode, slot: int) -> bool:
        return any(first <= slot <= last and owner == node.id for first, last, owner in self._map(node))

    def _map(self, node: ClusterNode) -> list[tuple[int, int, str]]:
        """Ranges of slots and the master of each, by what this server says; neighbours are joined."""
        found: list[tuple[int, int, str]] = []
        for first, last, master, *_ in sorted(node.ask("CLUSTER", "SLOTS")):
            owner = master[2].decode()
            if found and found[-1][2] == owner and found[-1][1] + 1 == first:
                first = found.pop()[0]
            found.append((first, last, owner))
        return found


@contextlib.contextmanager
def start_cluster(
    masters: int = 3,
    replicas: int = 1,
    node_timeout: float = 2.0,
    options: tuple[str, ...] = (),
    access: Access = OPEN,
    clock: SteppedClock | None = None,
) -> Iterator[Cluster]:
    """Start a cluster; it serves after two seconds, which is how long a master of a cluster waits. Stop it at the end.

    Args:
        masters: how many servers have slots.
        replicas: how many more follow each of them.
        node_timeout: seconds after which a server that does not answer the others is replaced.
        options: more options of each server.
        access: how all of them are reached, also by each other.
        clock: that of the last of them.
    """
    ms = str(round(node_timeout * 1000))
    if access.certificate is not None:
        options += ("--tls-cluster", "yes")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(Folder())
        nodes: list[ClusterNode] = []
        for left in reversed(range(masters * (1 + replicas))):
            if clock is not None and left == 0:
                stack.enter_context(clock.worn())
            nodes.append(ClusterNode(folder, "--cluster-node-timeout", ms, *options, access=access))
            stack.callback(nodes[-1].close)
        for number, node in enumerate(nodes[:masters]):
            first, end = SLOTS * number // masters, SLOTS * (number + 1) // masters
            node.ask("CLUSTER", "ADDSLOTS", *range(first, end))
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for one, other in itertools.combinations(nodes, 2):  # so that nobody waits for gossip
            one.ask("CLUSTER", "MEET", *other.address, other.server.port + BUS)
        started = Cluster(nodes, node_timeout)
        for number, node in enumerate(nodes[masters:]):
            follow = functools.partial(_follows, node, nodes[number % masters])
            wait_until(follow, START_SECONDS)
        wait_until(started.ok, START_SECONDS)
        yield started


def _follows(node: ClusterNode, master: ClusterNode) -> bool:
    try:
        node.ask("CLUSTER", "REPLICATE", master.id)
    except redis.exceptions.ResponseError:  # they have not met yet
        return False
    return True


def _open_slots(node: ClusterNode) -> list[int]:
    """Slots that are moving from or to this server."""
    (own,) = (line for line in node.text("CLUSTER", "NODES").splitlines() if "myself" in line)
    return [int(word[1:].partition("-")[0]) for word in own.split() if word.startswith("[")]
