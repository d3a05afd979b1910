"""A cluster in memory, served step by step: nodes with connections, and calls that remember where and when they ran."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from aiolock.backends.base import Wake
from aiolock.backends.cluster.node import Node
from aiolock.backends.cluster.router import Router
from aiolock.backends.cluster.slots import SLOTS, Claim, SlotMap, slot_of
from aiolock.backends.redis import Elsewhere, ErrorReply
from aiolock.backends.redis.outbox import Outbox
from aiolock.backends.redis.seeds import Address
from aiolock.errors import AiolockError, BackendError
from aiolock.scripts.base import Call
from tests.transport.calls import ECHO

NAMES = ("a", "b")
SLOT = {slot_of(name): name for name in NAMES}


class Work(Call[str]):
    """A call about a name.

    Args:
        world: where it runs.
        name: what it is about.
        wanted: its maker wants it to run again, if it may have run; otherwise makes another call in its place.
        of: the call in whose place this one is.

    Attributes:
        made_at: when.
        place: where it is in the order of the calls.
        runs: when it ran: the numbers of the world's steps.
        asked_at: when its maker was asked whether it may run again.
        results: what it was settled with.
    """

    def __init__(self, world: World, name: str, wanted: bool, of: Work | None = None) -> None:
        super().__init__(name, ECHO, (name,), ("x",), self._asked)
        self.made_at = world.tick()
        self.place: tuple[int, ...] = (*(() if of is None else of.place), self.made_at)
        self.runs: list[int] = []
        self.asked_at: list[int] = []
        self.results: list[object] = []
        self.settle = self.results.append
        self._world = world
        self._wanted = wanted

    def _asked(self) -> bool:
        self.asked_at.append(self._world.tick())
        if not self._wanted:
            self._world.call(self.name, True, of=self)
        return self._wanted


class World:
    """The nodes, who owns which name, and a router that has to find out.

    Args:
        nodes: how many there are.

    Attributes:
        epochs: of the nodes that a map's giver knows.
    """

    def __init__(self, nodes: int = 3) -> None:
        self.time = 0
        self.works: list[Work] = []
        self.addresses = [Address("node", number) for number in range(nodes)]
        self.owner = dict.fromkeys(NAMES, self.addresses[0])
        self.moving: dict[str, Address] = {}  # keys that are not at the owner any more
        self.down = self.needed = False
        self.refreshes = self.verified = 0
        self.epochs: dict[Address, int] = {}
        self.links: dict[Address, FakeBackend] = {}
        self.joined: list[Node] = []
        self.router = Router(
            self._make, lambda address: address, self._refresh, self._verify, self._joined, lambda: self.needed
        )
        self.learn()

    def tick(self) -> int:
        self.time += 1
        return self.time

    def call(self, name: str, wanted: bool = True, of: Work | None = None) -> Work:
        """Make a call, as `ClusterBackend.post` does."""
        work = Work(self, name, wanted, of)
        self.works.append(work)
        slot = slot_of(name)
        node = self.router.serving(slot)
        if node is not None:
            node.post(work)
        else:
            self.router.transit(slot).put(work)
        return work

    def map(self) -> SlotMap:
        owners: list[Address | None] = [None] * SLOTS
        for name, address in self.owner.items():
            owners[slot_of(name)] = address
        claims = {address: Claim(f"id {address}", self.epochs.get(address, 0)) for address in set(self.owner.values())}
        members = frozenset(f"id {address}" for address in self.epochs)
        return SlotMap(owners, frozenset(self.addresses), claims, members)

    def learn(self) -> None:
        self.router.learn(self.map())

    def verdict(self, name: str, at: Address, asking: bool) -> str | None:
        """The error that a node answers with; None if it runs the call."""
        slot, owner, target = slot_of(name), self.owner.get(name), self.moving.get(name)
        if self.down:
            return "CLUSTERDOWN The cluster is down"
        if owner is None:
            return "CLUSTERDOWN Hash slot not served"
        if at == owner:
            return None if target is None else f"ASK {slot} {target}"
        if asking and at == target:
            return None
        return f"MOVED {slot} {owner}"

    def _make(self, address: Address, elsewhere: Elsewhere, disconnected: Callable[[], None]) -> FakeBackend:
        link = self.links[address] = FakeBackend(self, address, elsewhere, disconnected)
        return link

    def _refresh(self) -> None:
        self.refreshes += 1

    def _verify(self) -> None:
        self.verified += 1

    def _joined(self, node: Node | None) -> None:
        if node is not None:
            self.joined.append(node)


class FakeBackend:
    """A connection to one node, with the outbox of a real one."""

    def __init__(self, world: World, address: Address, elsewhere: Elsewhere, disconnected: Callable[[], None]) -> None:
        self.connected = False
        self.closed = False
        self.way: deque[tuple[Call[Any], bool]] = deque()
        self._world = world
        self._address = address
        self._elsewhere = elsewhere
        self._disconnected = disconnected
        self._outbox = Outbox()

    @property
    def unreachable(self) -> AiolockError | None:
        return None if self.connected else BackendError("", "away", transient=True)

    def start(self, *, reconnected: Callable[[], None], needed: Callable[[], bool] | None) -> None:
        self.connected = True

    def run(self, call: Call[Any]) -> asyncio.Future[Any]:
        raise NotImplementedError

    def post(self, call: Call[Any]) -> None:
        self.take_over(call)

    def take_over(self, request: Call[Any], *, asking: bool = False) -> None:
        assert not self.closed
        request.refused = self._refused
        if self.connected and self._outbox.empty:
            self._write(request, asking)
        else:
            self._outbox.put(request)

    def give_back(self, wanted: Callable[[Call[Any]], bool]) -> list[Call[Any]]:
        return self._outbox.take_back(wanted)

    def unsettled(self) -> Iterator[Call[Any]]:
        yield from [request for request, _ in self.way]
        yield from self._outbox.requests()

    def replace(self, reason: Exception) -> None:
        self.lose(0)

    def subscribe(self, channel: str, wake: Wake, *, sharded: bool = False) -> asyncio.Future[None]:
        raise NotImplementedError

    def unsubscribe(self, channel: str) -> None:
        raise NotImplementedError

    async def finish(self) -> None:
        pass

    async def aclose(self) -> None:
        self.closed = True

    # What happens to it.

    def serve(self) -> None:
        """The node takes the next request, and its answer arrives."""
        if not self.way or not self.connected:
            return
        request, asking = self.way.popleft()
        assert isinstance(request, Work)
        error = self._world.verdict(request.name, self._address, asking)
        if error is not None:
            request.refused(request, ErrorReply(error))
        else:
            request.runs.append(self._world.tick())
            request.answer(b"x")

    def lose(self, executed: int) -> None:
        """The connection is lost, after the node took this many requests, whose answers are lost, too."""
        if not self.connected:
            return
        self.connected = False
        lost, self.way = list(self.way), deque()
        for request, asking in lost[:executed]:
            assert isinstance(request, Work)
            if self._world.verdict(request.name, self._address, asking) is None:
                request.runs.append(self._world.tick())
        for request, _ in lost:
            self._outbox.unanswered(request, BackendError(request.name, "lost", transient=True))
        self._disconnected()

    def reconnect(self) -> None:
        """There is a new connection."""
        if not self.connected:
            self.connected = True
            for item in self._outbox.take():
                assert isinstance(item, Call)
                self._write(item, False)

    def _write(self, request: Call[Any], asking: bool) -> None:
        if request.withdrawn:
            asyncio.get_running_loop().call_soon(request.unwritten)
            return
        request.writes += 1
        self.way.append((request, asking))

    def _refused(self, request: Call[Any], error: Exception) -> None:
        request.writes -= 1
        assert isinstance(error, ErrorReply)
        assert self._elsewhere(request, str(error).split()[0], error)
