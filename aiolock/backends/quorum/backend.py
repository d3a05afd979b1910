"""Several independent servers as one: what a majority of them says counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...clock import Clock
from ...errors import AiolockError, BackendError, ConfigurationError, QuorumError
from ...log import Log
from ...scripts.base import Call
from ...scripts.lock import ACQUIRE, RELEASE
from ..base import Abilities, Backend, Wake, nothing
from ..turnstile import Turnstile
from ..worker import Worker
from .acquire import QuorumAcquire
from .lane import Locks, NodeLane
from .majority import RULES
from .members import Members
from .node import Node
from .release import QuorumRelease
from .request import QuorumRequest
from .subscription import Subscription

logger: Log = Log("aiolock.quorum")

LEAST = 3
STRAGGLERS = 0.1
"""The share of the connect time that the other nodes get once a majority is connected."""


class QuorumBackend(Backend):
    """Independent masters with a connection each; implements `Backend` for the scripts of the lock.

    Source: the Redlock algorithm (redis.io, "Distributed Locks with Redis"), and what it lacks: fences.

    Args:
        nodes: a backend for each server, all on one clock; at least three.
        request_timeout: seconds in which a server must answer.
        turns: makes a manager of locks on one node, for the turnstile; None: processes race.

    Attributes:
        clock: that of the nodes.
        db: the number of the database, the same on all.
        nodes: the number of nodes.
        abilities: no queues, but a turnstile.

    Raises:
        ConfigurationError: fewer than three, two for one server, or different databases.
    """

    def __init__(
        self,
        nodes: Sequence[Backend],
        *,
        request_timeout: float = 5.0,
        turns: Callable[[Backend], Locks] | None = None,
    ) -> None:
        _check(nodes)
        self.clock: Clock = nodes[0].clock
        self.db: int = nodes[0].db
        self.nodes: int = len(nodes)
        # The manager gives up after request_timeout, and then knows less about the nodes than this backend.
        servers = [Node(number, node) for number, node in enumerate(nodes, 1)]
        self._members = Members(servers, self.clock, request_timeout / 2)
        lanes = [] if turns is None else [NodeLane(node, turns) for node in servers]
        self._turnstile = Turnstile(self.clock, lanes, self._members.spread)
        self.abilities: Abilities = Abilities(queues=False, turnstile=self._turnstile)
        self._subscriptions: dict[str, Subscription] = {}
        self._opening: list[Worker[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event = asyncio.Event()
        self._open = False

    @property
    def unreachable(self) -> AiolockError | None:
        """See `Backend`."""
        away = [node.unreachable for node in self._members.nodes if node.unreachable is not None]
        return away[0] if self._members.hopeless(len(away)) else None

    def __repr__(self) -> str:
        ready = sum(node.ready for node in self._members.nodes)
        return f"<QuorumBackend nodes={self.nodes} ready={ready}>"

    async def open(
        self, *, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None = None
    ) -> None:
        """See `Backend.open`: a majority is enough; the others connect when they can."""
        if self._open and not (self._loop is not None and self._loop.is_closed()):
            raise ConfigurationError("", "the backend is already open: close it first")
        self._open = True
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        for node in self._members.nodes:
            node.forget()
        self._turnstile.forget()
        self._opening = [self._connect(node, timeout, reconnected, needed) for node in self._members.nodes]
        try:
            await self._majority(timeout)
        except BaseException:
            await self.aclose()
            raise

    def post(self, call: Call[Any]) -> None:
        """See `Backend.post`."""
        request = self._request(call) if self._open else None
        if not self._open:
            _fail(call, "the manager was closed before the quorum answered")
        elif request is None:
            _fail(call, f"a quorum does not offer {call.script.name}: use a manager of one server")
        else:
            request.send()

    def subscribe(self, channel: str, wake: Wake) -> asyncio.Future[None]:
        """See `Backend.subscribe`: done once a majority has confirmed. Messages come after a short random pause."""
        subscription = Subscription(self._members, channel, wake)
        if not self._open:
            subscription.fail(BackendError("", "the connection to the quorum is closed"))
            return subscription.future
        self._subscriptions[channel] = subscription
        for node in self._members.nodes:
            if node.ready:
                subscription.join(node)
        return subscription.future

    def unsubscribe(self, channel: str) -> None:
        """See `Backend.unsubscribe`."""
        subscription = self._subscriptions.pop(channel, None)
        if subscription is not None:
            subscription.end()

    async def aclose(self) -> None:
        """See `Backend.aclose`; harmless if it is already closed."""
        if not self._open:
            return
        self._open = False
        opening, self._opening = self._opening, []
        for worker in opening if self._loop is asyncio.get_running_loop() else []:
            worker.stop()
        for channel in list(self._subscriptions):
            self.unsubscribe(channel)
        try:
            if self._loop is asyncio.get_running_loop():
                await self._turnstile.aclose()
            async with asyncio.TaskGroup() as group:
                for node in self._members.nodes:
                    group.create_task(node.aclose())
        finally:
            self._members.asking.clear()
            self._members.granted.clear()
            if self._loop is asyncio.get_running_loop():
                for worker in opening:
                    await worker.stopped()

    def _request(self, call: Call[Any]) -> QuorumRequest[Any] | None:
        if call.script is ACQUIRE:
            return QuorumAcquire(self._members, call)
        if call.script is RELEASE:
            return QuorumRelease(self._members, call)
        rule = RULES.get(call.script)
        return None if rule is None else QuorumRequest(self._members, call, rule, self._members.patience)

    async def _majority(self, timeout: float) -> None:
        nodes, quorum = self._members.nodes, self._members.quorum
        while True:
            for node in nodes:
                if isinstance(node.failure, ConfigurationError):
                    raise node.failure
            ready = sum(node.ready for node in nodes)
            failed = sum(node.failure is not None for node in nodes)
            if self._members.hopeless(failed):
                raise self._unconnected()
            if ready + failed == len(nodes):
                return
            self._news.clear()
            try:
                async with asyncio.timeout(timeout * STRAGGLERS if ready >= quorum else None):
                    await self._news.wait()
            except TimeoutError:
                return

    def _connect(
        self, node: Node, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None
    ) -> Worker[None]:
        again = partial(self._connected_again, node, timeout, reconnected, needed)
        work = partial(node.open, timeout, again, self._told, self._members.twin, needed)
        return Worker(work, nothing, f"aiolock {node.label}")

    def _connected_again(
        self, node: Node, timeout: float, reconnected: Callable[[], None], needed: Callable[[], bool] | None
    ) -> None:
        node.failure = self._members.twin(node)
        if node.failure is not None:  # its name now means another server
            logger.error("%s", node.failure)
            node.ready = False
            self._opening.append(self._connect(node, timeout, reconnected, needed))
        reconnected()

    def _told(self, node: Node) -> None:
        self._news.set()
        if node.ready:
            for subscription in self._subscriptions.values():
                subscription.join(node)

    def _unconnected(self) -> QuorumError:
        nodes = self._members.nodes
        outcomes = tuple(f"{node.label}: {node.failure or ('connected' if node.ready else 'none')}" for node in nodes)
        failures = [node.failure for node in nodes if isinstance(node.failure, BackendError)]
        error = QuorumError(
            "",
            f"{self._members.quorum} of {len(nodes)} nodes must be connected: " + "; ".join(outcomes),
            transient=not self._members.hopeless(sum(not failure.transient for failure in failures)),
            outcomes=outcomes,
        )
        error.__cause__ = failures[0]
        return error


def _fail(call: Call[Any], why: str) -> None:
    asyncio.get_running_loop().call_soon(call.end, BackendError(call.name, why))


def _check(nodes: Sequence[Backend]) -> None:
    if len(nodes) < LEAST:
        raise ConfigurationError(
            "", f"a quorum of {len(nodes)} survives no failure: give {LEAST} or more independent servers, "
            "or use LockManager(url) for one"
        )  # fmt: skip
    addresses = [getattr(node, "address", str(id(node))) for node in nodes]
    twice = {address for address in addresses if addresses.count(address) > 1}
    if twice:
        raise ConfigurationError(
            "", f"{', '.join(sorted(twice))} is in the quorum more than once: name each server only once, or one "
            "failure costs several votes"
        )  # fmt: skip
    if len({node.db for node in nodes}) > 1:
        raise ConfigurationError("", "all servers of a quorum must use the same database number")
