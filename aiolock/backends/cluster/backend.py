"""A cluster as one server: each request runs on the master that serves the slot of its keys."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...clock import Clock, SystemClock
from ...errors import AiolockError, BackendError, ConfigurationError
from ...event_log import log_event
from ...events import Event
from ...scripts.base import Call
from ...scripts.outcomes import awaits
from ..base import Abilities, Backend, Wake, nothing
from ..presence import PRESENCE, Presence
from ..redis import Complaints, Elsewhere, Handshake, RedisBackend, Replicas
from ..redis.seeds import Address, Seeds
from ..releases import Releases
from .node import Node
from .router import Router
from .slots import slot_of
from .subscription import Subscription
from .topology import HEAD_START, Topology
from .watch import Watch


class ClusterBackend(Backend):
    """A Redis Cluster with a connection to each master in use; implements `Backend`.

    The keys of one request are all in one slot. Requests about one slot keep their order when it moves. A request that
    a node refused without running it is written again, to whoever serves the slot then; one that died unanswered with
    its connection only if its maker says so.

    Args:
        seeds: some of the nodes, one is enough.
        clock: stamps calls.
        request_timeout: seconds in which a node must answer.
        replicas: the replicas of each master that must acknowledge every call; None for none.
        pushes: False if there will be no subscription.
        channel: as for `Handshake`.
        companion: the backend that has the subscriptions: it has to listen on each node that this one uses.
        tell: told when the connection to a node is lost, and when it is back.
        presence: how the nodes know it.

    Attributes:
        clock: as given.
        db: 0.
        abilities: all.
    """

    db = 0
    abilities: Abilities = Abilities()

    def __init__(
        self,
        seeds: Seeds,
        *,
        clock: Clock | None = None,
        request_timeout: float = 5.0,
        replicas: Replicas | None = None,
        pushes: bool = True,
        channel: str = "",
        companion: ClusterBackend | None = None,
        tell: Callable[[Event], None] = log_event,
        presence: Presence = PRESENCE,
    ) -> None:
        self._tell = tell
        self._presence = presence
        self.clock: Clock = clock or SystemClock()
        self._seeds = seeds
        self._timeout = request_timeout
        self._replicas = replicas
        self._pushes = pushes
        self._channel = channel
        self._companion = companion
        self._complaints: Complaints = Complaints() if companion is None else companion._complaints
        self._topology = Topology(self._seeds, request_timeout)
        self._router: Router | None = None  # while it is open
        self._subscriptions: dict[str, Subscription] = {}
        self._managers: dict[str, Subscription] = {}  # those without a hash tag
        self._watch = Watch(self._moved)
        self._releases = Releases(self._owner, self.post)
        self._reconnected: Callable[[], None] = nothing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed: asyncio.Future[None] | None = None

    @property
    def unreachable(self) -> AiolockError | None:
        """See `Backend`: a node that is used, a slot, or the whole cluster."""
        return (self._router.unreachable if self._router is not None else None) or self._topology.failure

    def away(self, key: str) -> AiolockError | None:
        """See `Backend.away`: its slot, the node that has it, or the whole cluster."""
        if self._router is None:
            return self._topology.failure
        slot = slot_of(key)
        known = self._router.away(slot)
        return known if known is not None or self._router.connected(slot) else self._topology.failure

    def __repr__(self) -> str:
        used = len(list(self._router.used())) if self._router is not None else 0
        return f"<ClusterBackend nodes={used}>"

    def slot(self, key: str) -> int:
        """See `Backend.slot`."""
        return slot_of(key)

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        """See `Backend.open`: asks for the map. Masters are connected to when they are needed."""
        if self._loop is not None and self._loop.is_closed():
            await self.aclose()
        if self._loop is not None:
            raise ConfigurationError("", "the backend is already open: close it first")
        self._loop = asyncio.get_running_loop()
        self._reconnected = reconnected
        try:
            known, answered = await self._topology.find(timeout)
        except BaseException:
            self._loop = None
            raise
        self._releases.begin()
        self._router = Router(self._make, self._seeds.remap, self._topology.refresh, self._verify, self._joined, needed)
        self._router.learn(known)
        self._topology.begin(self._router)
        masters = list({owner for owner in known.owners if owner is not None})
        random.shuffle(masters)
        self._homes = sorted(masters, key=lambda master: master != answered)

    def post(self, call: Call[Any]) -> None:
        """See `Backend.post`."""
        call.script = call.script.sharded if self._replicas is None else call.script.replicated
        router = self._router
        if router is None:
            asyncio.get_running_loop().call_soon(call.end, self._closed_error(call.name))
            return
        self._topology.watch()
        slot = slot_of(call.keys[0])
        assert self._loop is not None
        call.settle = partial(self._settled, call, router.owners[slot], call.settle)
        if call.away is not None:
            call.away = partial(self._away, slot, self._loop.time(), call.away)
        node = router.serving(slot)
        if node is not None:
            node.post(call)
        else:
            router.transit(slot).put(call)

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        """See `Backend.subscribe`."""
        subscription = Subscription(channel, wake, self._topology.refresh)
        router = self._router
        if router is None:
            subscription.fail(self._closed_error(""))
            return subscription.future
        self.unsubscribe(channel)
        self._subscriptions[channel] = subscription
        if subscription.slot is not None:
            self._follow(subscription)
            return subscription.future
        self._managers[channel] = subscription
        for node in router.used():
            subscription.join(node)
        self._watch_all(channel)
        if not any(router.used()):
            self._try_homes(subscription, iter(self._homes))
        return subscription.future

    def _try_homes(self, subscription: Subscription, homes: Iterator[Address]) -> None:
        """Listen on one master, and on the next if it does not answer soon: it may be dead, and not replaced yet."""
        home = next(homes, None)
        if self._router is None or home is None or subscription.future.done():
            return
        node = self._router.node(home)
        if not node.used:
            self._router.use(node)
        asyncio.get_running_loop().call_later(HEAD_START, self._try_homes, subscription, homes)

    def unsubscribe(self, channel: str) -> None:
        """See `Backend.unsubscribe`."""
        self._managers.pop(channel, None)
        subscription = self._subscriptions.pop(channel, None)
        if subscription is not None:
            subscription.end()

    async def aclose(self) -> None:
        """See `Backend.aclose`; harmless if it is already closed."""
        if self._closed is not None:
            await asyncio.wait((self._closed,))
            return
        router = self._router
        if router is None:
            return
        if self._loop is None or self._loop.is_closed():
            await self._forget(router)
            return
        self._closed = asyncio.get_running_loop().create_future()
        worker = self._topology.stop()
        finished = False
        try:
            try:
                await router.finish(self._timeout)
                finished = True
            finally:
                self._router = self._loop = None
                self._releases.end()
                for subscription in self._subscriptions.values():
                    subscription.fail(self._closed_error(""))
                    subscription.sharded.end()
                self._subscriptions.clear()
                self._managers.clear()
                await router.aclose(self._closed_error, at_once=not finished)
                if worker is not None:
                    await worker.stopped()
        finally:
            self._closed.set_result(None)
            self._closed = None

    async def _forget(self, router: Router) -> None:
        """Its loop was closed before it was: nothing of it runs any more, and no one waits."""
        self._router = self._loop = self._closed = None
        self._releases.end()
        self._topology.forget()
        self._subscriptions.clear()
        self._managers.clear()
        for node in router.used():
            await node.backend.aclose()

    def _settled(self, call: Call[Any], owner: Node | None, told: Callable[[Any], None] | None, result: object) -> None:
        try:
            if told is not None:
                told(result)
        finally:
            if call.script.ends is not None and self._router is not None:
                self._releases.add(call, result, owner)
            elif awaits(result):
                (self._companion or self)._attend(call.keys[0])

    def _away(self, slot: int, made_at: float, told: Callable[[AiolockError], None], known: AiolockError) -> None:
        """A node cannot be reached, and will be tried again. Another may have its slots by now: a newer map says so."""
        if self._topology.failure is not None or (self._router is not None and self._router.missed(slot, made_at)):
            told(known)

    def _owner(self, call: Call[Any]) -> Node | None:
        return None if self._router is None else self._router.owners[slot_of(call.keys[0])]

    def _attend(self, key: str) -> None:
        """The manager waits for what happens to `key`."""
        if self._router is not None and (node := self._router.owners[slot_of(key)]) is not None:
            for subscription in self._managers.values():
                subscription.sharded.attend(key, node)

    def _make(self, address: Address, elsewhere: Elsewhere, disconnected: Callable[[], None]) -> RedisBackend:
        least = None if self._replicas is None else self._replicas.least
        return RedisBackend(
            self._seeds.connector(address, self._pushes),
            clock=self.clock,
            request_timeout=self._timeout,
            replicas=self._replicas,
            handshake=Handshake(least, "cluster", self._channel, self._complaints.at(address)),
            elsewhere=elsewhere,
            disconnected=disconnected,
            tell=self._tell,
            presence=self._presence,
        )

    def _verify(self) -> None:
        self._reconnected()

    def _listen(self, address: Address) -> None:
        """Use the node there, too: scripts count who listens."""
        if self._router is not None:
            node = self._router.node(address)
            if not node.used:
                self._router.use(node)

    def _joined(self, node: Node | None) -> None:
        if node is None:
            self._releases.repeat()
        if self._companion is not None and node is not None:
            self._companion._listen(node.address)
        for subscription in list(self._subscriptions.values()):
            if subscription.slot is not None:
                if node is None:
                    self._follow(subscription)
                continue
            if node is not None:
                subscription.join(node)
            self._watch_all(subscription.channel)

    def _watch_all(self, prefix: str) -> None:
        assert self._router is not None
        for node in self._router.used():
            if self._watch.lacks(node) and (channel := self._router.served_by(node, prefix)) is not None:
                self._watch.begin(node, channel)

    def _moved(self) -> None:
        """A node has lost a slot, perhaps all: its holds may be lost, and another node knows."""
        self._topology.refresh()
        self._reconnected()

    def _follow(self, subscription: Subscription) -> None:
        assert self._router is not None
        assert subscription.slot is not None
        owner = self._router.owner(subscription.slot)
        if owner is not None:
            subscription.move(owner)

    def _closed_error(self, name: str) -> BackendError:
        return BackendError(name, "the manager was closed before the cluster answered", transient=not name)
