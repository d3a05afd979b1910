"""Which node each request goes to, as slots move and nodes come and go."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any

from ...errors import AiolockError, BackendError
from ...log import Log
from ...scripts.base import Call
from ..redis import Elsewhere, ErrorReply, RedisBackend, refused
from ..redis.seeds import Address
from ..worker import Worker
from .node import Node
from .slots import SLOTS, Remap, SlotMap, read_redirection, slot_of
from .transit import Transit

logger: Log = Log("aiolock.cluster")

KEEP = 5.0
"""Seconds for which a connection is kept to a node that has no slots: some may come back."""
GRACE = 0.2
"""Seconds in which a node that has lost its slots may still answer what it was sent before."""
ATTEMPTS = 1000
"""Channels that are tried for one in the slots of a node."""

Make = Callable[[Address, Elsewhere, Callable[[], None]], RedisBackend]
"""Creates the backend of a node: where it is, what is asked about requests that it refused, what is told when it is
disconnected.
"""

REDIRECTED = frozenset({"MOVED", "ASK"})
LATER = frozenset({"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"})
"""Errors after which the slot's owner may run the same request in a moment; for all but the first, that may be another
by then.
"""
UNSERVED = "slot not served"
"""Part of a CLUSTERDOWN that says more: the node that should have the slot knows that no one has it."""


class Router:
    """The nodes in use, the owner of each slot, and the slots in transit.

    Without a transit, all of a slot's requests that are unsettled are at its owner.

    Args:
        make: creates the backend of a node.
        remap: where the address that a node announces is reached.
        refresh: asks for a new map, soon.
        verify: told when a node in use has lost all its slots: its holds may be lost.
        joined: told of each node that is used from now on, before its first request; and when the owners of slots have
            changed, with None.
        needed: whether anything is held, or waited for; None: always.
    """

    def __init__(
        self,
        make: Make,
        remap: Remap,
        refresh: Callable[[], None],
        verify: Callable[[], None],
        joined: Callable[[Node | None], None],
        needed: Callable[[], bool] | None,
    ) -> None:
        self.transits: dict[int, Transit] = {}
        self.owners: list[Node | None] = [None] * SLOTS
        self._make = make
        self._remap = remap
        self._refresh = refresh
        self._verify = verify
        self._joined = joined
        self._needed = needed
        self._nodes: dict[Address, Node] = {}
        self._closing: set[Worker[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._calm: asyncio.Future[None] | None = None  # while it is awaited: no answer is expected in a transit
        self._over = False

    # Where requests go.

    def used(self) -> Iterator[Node]:
        """The nodes that have a connection, or are getting one."""
        return (node for node in self._nodes.values() if node.used)

    def serving(self, slot: int) -> RedisBackend | None:
        """The slot's owner, to which you may write at once; None while it is in transit."""
        if slot in self.transits:
            return None
        node = self.owners[slot]
        if node is None or not node.used:
            node = self.owner(slot)
        return None if node is None else node.backend

    def transit(self, slot: int) -> Transit:
        """The slot's transit, which begins now if it had not begun."""
        transit = self.transits.get(slot)
        if transit is None:
            transit = self.transits[slot] = Transit(slot, self)
        return transit

    def away(self, slot: int) -> AiolockError | None:
        """Why requests about a slot cannot be answered at the moment, as the last attempt found; None if they can."""
        transit, node = self.transits.get(slot), self.owners[slot]
        if transit is not None and transit.failure is not None:
            return transit.failure
        if node is None:
            return BackendError("", "the cluster is down: no node serves this slot (CLUSTER SHARDS)", transient=True)
        return _away(node)

    @property
    def unreachable(self) -> AiolockError | None:
        """Why a slot that is wanted, or a node that is used, cannot be reached at the moment."""
        failures = (*(self.away(slot) for slot in self.transits), *(_away(node) for node in self.used()))
        return next((failure for failure in failures if failure is not None), None)

    def connected(self, slot: int) -> bool:
        """Whether its master is used, and answers."""
        node = self.owners[slot]
        return node is not None and node.used and not node.away

    def missed(self, slot: int, since: float) -> bool:
        """Whether its master is unreachable, and a map that came after loop time `since` names no other."""
        node = self.owners[slot]
        return node is not None and node.missed_at > since

    @property
    def unsettled(self) -> bool:
        """Whether the map is in doubt: a node with slots is unreachable, or requests have nowhere to go."""
        nowhere = any(transit.failure or self.owners[slot] is None for slot, transit in self.transits.items())
        return nowhere or any(node.away and node.idle_at is None for node in self._nodes.values())

    @property
    def in_use(self) -> bool:
        """Whether it matters who serves which slot: something is held or waited for, or requests are unsettled."""
        return self._needed is None or self._needed() or bool(self.transits) or any(_busy(node) for node in self.used())

    def rank(self, address: Address) -> int:
        """Who is asked for a map first, from 0: whoever is not in use, because the others may be what it is about."""
        node = self._nodes.get(address)
        return 0 if node is None or not node.used else 2 if node.away else 1

    # What transits ask.

    def owner(self, slot: int) -> Node | None:
        """The slot's owner, opened; None if there is none."""
        node = self.owners[slot]
        if node is not None and not node.used:
            self.use(node)
        return node

    def ended(self, transit: Transit) -> None:
        """The slot is no longer in transit."""
        if self.transits.get(transit.slot) is transit:
            del self.transits[transit.slot]
        self._calm_down()

    def _calm_down(self) -> None:
        if self._calm is not None and not (self._expecting or self._calm.done()):
            self._calm.set_result(None)

    def lost(self) -> None:
        """No one serves a slot that is wanted."""
        self._refresh()

    def use(self, node: Node) -> None:
        """Open the node: calls wait for its connection."""
        node.used = True
        node.backend.start(reconnected=partial(self._back, node), needed=self._needed)
        self._joined(node)

    def _back(self, node: Node) -> None:
        node.missed_at = -math.inf
        self._verify()

    def served_by(self, node: Node, prefix: str) -> str | None:
        """A channel that begins with `prefix`, in a slot of this node; None if it has few or none."""
        channels = (f"{prefix}:watch:{{{number}}}" for number in range(ATTEMPTS))
        return next((channel for channel in channels if self.owners[slot_of(channel)] is node), None)

    def node(self, address: Address) -> Node:
        """The node at an address."""
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = Node(address)
            node.backend = self._make(address, partial(self.refused, node), partial(self.disconnected, node))
        return node

    # What changes.

    def learn(self, known: SlotMap) -> None:
        """There is a new map, or a copy of an old one."""
        self._assign(known)
        serving = set(self.owners)
        now = asyncio.get_running_loop().time()
        replaced = False
        for node in list(self._nodes.values()):
            node.missed_at = now if node.away else -math.inf
            if node in serving:
                node.idle_at = None
            elif not node.used:
                del self._nodes[node.address]
            elif node.idle_at is None:
                node.idle_at, replaced = now, True
                asyncio.get_running_loop().call_later(GRACE, self._give_up, node)
            if node.used:
                self._reroute(node)
        self._joined(None)
        for transit in list(self.transits.values()):
            transit.wake()
        self._close_idle()
        if replaced:
            self._verify()

    def _assign(self, known: SlotMap) -> None:
        said: dict[Address | None, Node | None] = {
            address: None if address is None else self.node(address) for address in set(known.owners)
        }
        for address, claim in known.claims.items():
            node = self.node(address)
            if claim.id != node.claim.id or claim.epoch > node.claim.epoch:
                node.claim = claim
        owners = [said[address] for address in known.owners]
        outdated = {pair for pair in set(zip(self.owners, owners, strict=True)) if self._outdated(*pair, known)}
        if outdated:
            both = zip(self.owners, owners, strict=True)
            owners = [before if (before, owner) in outdated else owner for before, owner in both]
        self.owners = owners

    def _outdated(self, owner: Node | None, other: Node | None, known: SlotMap) -> bool:
        """Whether `owner` took a slot from the other, and whoever gave the map has not heard of it."""
        if owner is None or other is None or owner is other or owner.claim.id not in known.members:
            return False
        return known.claims[other.address].epoch < owner.claim.epoch

    def _give_up(self, node: Node) -> None:
        """It has had time to say that its slots are elsewhere: it is silent."""
        if not self._over and node.idle_at is not None and _busy(node):
            node.backend.replace(ConnectionError(f"{node.address} does not answer, and others serve its slots"))

    def refused(self, node: Node, request: Call[Any], code: str, error: ErrorReply) -> bool:
        """`node` says that it did not run a request; return True if it is run elsewhere, or later."""
        if self._over or (code not in REDIRECTED and code not in LATER):
            return False
        slot = slot_of(request.keys[0])
        if slot not in self.transits:
            self._watch(node, self.transit(slot), slot)
        transit = self.transits[slot]
        if code in LATER:
            transit.failure = refused("", "requests", error)
            if UNSERVED in str(error) and self.owners[slot] is node:
                self.owners[slot] = None  # until a map names another
                self._calm_down()
            transit.refuse(request, pause=True)
            if code != "TRYAGAIN":
                self._refresh()
            return True
        to = read_redirection(str(error), node.address, self._remap)
        if code == "ASK":
            transit.refuse(request, ask=None if to is None else self._ready(to), pause=to is None)
            return True
        if to is not None and self.owners[slot] is node:  # otherwise something newer is known
            owner = self.owners[slot] = self.node(to)
            owner.idle_at = None
            self._joined(None)
        transit.refuse(request, pause=to is None)
        self._refresh()
        return True

    def disconnected(self, node: Node) -> None:
        """A node has lost its connection, or failed to connect."""
        if not self._over:
            self._reroute(node)
            if node.idle_at is None:
                self._refresh()
            else:
                asyncio.get_running_loop().call_soon(self._close_idle)  # once its loss has been told

    def _ready(self, address: Address) -> Node:
        node = self.node(address)
        if not node.used:
            self.use(node)
        return node

    def _watch(self, node: Node, transit: Transit, slot: int) -> None:
        for request in node.backend.unsettled():
            if slot_of(request.keys[0]) == slot:
                transit.watch(request, node)

    def _reroute(self, node: Node) -> None:
        """Slots may have left `node`: await its answers, or take its requests if there will be none."""
        if node.backend.connected:
            for request in list(node.backend.unsettled()):
                slot = slot_of(request.keys[0])
                if self.owners[slot] is not node:
                    self.transit(slot).watch(request, node)
            return
        owners = self.owners
        for request in node.backend.give_back(lambda request: owners[slot_of(request.keys[0])] is not node):
            self.transit(slot_of(request.keys[0])).give_back(request)

    # Nodes without slots.

    def _sweep_later(self) -> None:
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(KEEP, self._swept)

    def _swept(self) -> None:
        self._sweep = None
        self._close_idle()

    def _close_idle(self) -> None:
        if self._over:
            return
        now = asyncio.get_running_loop().time()
        for node in list(self._nodes.values()):
            if node.idle_at is None:
                continue
            kept = now - node.idle_at < KEEP * 0.99 and not node.away  # whoever comes back is a replica by now
            if kept or _busy(node) or len(list(self.used())) == 1:  # messages come by it
                self._sweep_later()
                continue
            del self._nodes[node.address]
            node.used = False
            self._close(node)
            logger.info("closed the connection to %s, which has no slots any more", node.address)

    def _close(self, node: Node) -> None:
        worker = Worker(node.backend.aclose, lambda _: self._closing.discard(worker), f"aiolock close {node.address}")
        self._closing.add(worker)

    # The end.

    @property
    def _expecting(self) -> bool:
        """Whether a slot in transit has an owner, who may answer. The others get none: there is no newer map."""
        return any(self.owners[slot] is not None for slot in self.transits)

    async def finish(self, timeout: float) -> None:
        """Wait until everything is answered, but no longer than `timeout` seconds for slots in transit; not at all for
        those that no one serves. No one asks for maps any more.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        await _all(node.backend.finish() for node in self.used())
        while self._expecting and loop.time() < until:
            self._calm = loop.create_future()
            await asyncio.wait((self._calm,), timeout=until - loop.time())
            await _all(node.backend.finish() for node in self.used())

    async def aclose(self, closed: Callable[[str], BackendError], *, at_once: bool = False) -> None:
        """Close all connections; what is unsettled fails with `closed(name)`. With `at_once`, wait for no answer."""
        self._over = True
        if self._sweep is not None:
            self._sweep.cancel()
        for transit in self.transits.values():
            for request in transit.close():
                request.end(closed(request.name))
        nodes, self._nodes = [node for node in self._nodes.values() if node.used], {}
        try:
            async with asyncio.timeout(0 if at_once else None):
                await _all(node.backend.aclose() for node in nodes)
        except TimeoutError:
            pass
        finally:
            for worker in list(self._closing):
                await worker.stopped()


def _away(node: Node) -> BackendError | None:
    known = node.backend.unreachable if node.used else None
    if known is None:
        return None
    transient = isinstance(known, BackendError) and known.transient
    failure = BackendError("", f"the cluster's node {node.address} is unreachable: {known}", transient=transient)
    failure.__cause__ = known
    return failure


def _busy(node: Node) -> bool:
    return next(node.backend.unsettled(), None) is not None


async def _all(each: Iterable[Coroutine[None, None, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for one in each:
            group.create_task(one)
