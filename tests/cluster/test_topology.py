"""The map of a cluster: whom it is asked of, and how often."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest

from aiolock import BackendError, ConfigurationError
from aiolock.backends.cluster import topology as topologies
from aiolock.backends.cluster.slots import SLOTS, SlotMap
from aiolock.backends.cluster.source import Source
from aiolock.backends.cluster.topology import Topology
from aiolock.backends.redis.seeds import Address, Seeds
from aiolock.testing.server import RedisServer
from tests.faults.scene import until
from tests.support.cluster import Cluster


class Owner:
    """Whoever needs the map.

    Attributes:
        learned: what it was told.
        unsettled: it needs another.
        in_use: it needs to hear of changes.
        ranks: who is asked later than others.
    """

    def __init__(self) -> None:
        self.learned: list[SlotMap] = []
        self.unsettled = False
        self.in_use = False
        self.ranks: dict[Address, int] = {}

    def rank(self, address: Address) -> int:
        return self.ranks.get(address, 0)

    def learn(self, known: SlotMap) -> None:
        self.learned.append(known)


@pytest.fixture
def make() -> Callable[[list[str]], Topology]:
    return lambda urls: Topology(Seeds(urls), 5.0)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topologies, "SPREAD", 0.0)
    monkeypatch.setattr(topologies, "PAUSE", 0.01)


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of someone who listens, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}"


Make = Callable[[list[str]], Topology]


async def test_a_map(cluster: Cluster, make: Make) -> None:
    await cluster.until(lambda: all(len(entry) == 4 for entry in cluster.nodes[0].ask("CLUSTER", "SLOTS")))
    known, answered = await make(cluster.urls[:1]).find(5.0)
    assert answered == ("127.0.0.1", int(cluster.nodes[0].address[1]))
    assert {owner for owner in known.owners if owner} == {
        ("127.0.0.1", int(master.address[1])) for master in cluster.masters
    }
    assert len(known.owners) == SLOTS
    assert len(known.nodes) == len(cluster.nodes)


async def test_seeds_that_are_away(cluster: Cluster, make: Make, silent: str) -> None:
    """One that refuses costs nothing, one that is silent a head start. Kept by Topology._ask."""
    topology = make(["redis://127.0.0.1:1", silent, cluster.urls[0]])
    for _ in range(4):
        topology._nodes = frozenset()
        _, answered = await topology.find(5.0)
        assert answered.port == cluster.nodes[0].server.port


async def test_many_events_cost_one_map(cluster: Cluster, make: Make) -> None:
    """Kept by Topology.refresh."""
    topology, owner = make(cluster.urls[:1]), Owner()
    topology.begin(owner)
    for _ in range(100):
        topology.refresh()
    await until(lambda: topology._worker is None)
    assert len(owner.learned) == 1
    topology.refresh()
    owner.unsettled = True
    await until(lambda: len(owner.learned) >= 4)
    owner.unsettled = False
    await until(lambda: topology._worker is None)


async def test_an_outage_of_all(make: Make) -> None:
    """It is asked again and again, and the reason is known meanwhile. Kept by Topology._work."""
    topology, owner = make(["redis://127.0.0.1:1"]), Owner()
    topology.begin(owner)
    topology.refresh()
    await until(lambda: topology.failure is not None)
    assert "no node of the cluster answers" in str(topology.failure)
    worker = topology.stop()
    assert worker is not None
    await worker.stopped()


async def test_a_failure_is_over_when_it_is_opened_again(cluster: Cluster, make: Make) -> None:
    """Kept by Topology.find."""
    topology = make(cluster.urls[:1])
    topology.failure = BackendError("", "away", transient=True)
    await topology.find(5.0)
    assert topology.failure is None


async def test_a_server_without_a_cluster(redis_server: RedisServer, make: Make) -> None:
    with pytest.raises(ConfigurationError, match="not part of a cluster"):
        await make(["redis://127.0.0.1:1", redis_server.url]).find(5.0)


async def test_nobody_answers_in_time(make: Make, silent: str) -> None:
    with pytest.raises(BackendError, match="none of 127"):
        await make([silent]).find(0.1)


async def test_it_looks_while_something_is_in_use(
    cluster: Cluster, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one connection, which is closed at the end. Kept by Topology._due."""
    monkeypatch.setattr(topologies, "LOOK", (0.01, 0.01))
    topology, owner = make(cluster.urls), Owner()
    before = cluster.clients()
    topology.begin(owner)
    topology.watch()
    await until(lambda: topology._worker is None)
    assert owner.learned == []
    asked, ask = [], Topology._ask
    monkeypatch.setattr(Topology, "_ask", lambda *args: (asked.append(args), ask(*args))[1])
    owner.in_use = True
    topology.watch()
    await until(lambda: len(asked) >= 3)
    assert len(owner.learned) == 1  # nothing has changed since
    assert cluster.clients() == before + 1
    owner.in_use = False
    await until(lambda: topology._worker is None)
    await cluster.until(lambda: cluster.clients() == before)
    told = len(owner.learned)
    topology.refresh()
    await until(lambda: topology._worker is None)
    assert len(owner.learned) == told + 1


async def test_doubt_does_not_wait_for_the_next_look(
    cluster: Cluster, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept by Topology.refresh: `_doubt`."""
    monkeypatch.setattr(topologies, "LOOK", (60.0, 60.0))
    topology, owner = make(cluster.urls), Owner()
    topology.begin(owner)
    owner.in_use = True
    topology.watch()
    await until(lambda: topology._doubt is not None)
    topology.refresh()
    await until(lambda: len(owner.learned) == 1)
    worker = topology.stop()
    assert worker is not None
    await worker.stopped()
    assert topology._source is None


class FakeSource:
    """A node that gives a map, or nothing.

    Attributes:
        maps: what each node says.
        asked: who was asked.
        open: who was, and is not closed.
    """

    maps: dict[Address, SlotMap | BackendError]
    asked: list[Address]
    open: set[Address]

    def __init__(self, address: Address, seeds: Seeds, timeout: float) -> None:
        self.address = address

    async def find_map(self) -> SlotMap:
        self.asked.append(self.address)
        self.open.add(self.address)
        said = self.maps.get(self.address)
        if said is None:
            try:
                await asyncio.sleep(60.0)
            finally:
                await asyncio.sleep(0.0)
        if isinstance(said, BackendError):
            raise said
        assert said is not None
        return said

    async def close(self) -> None:
        self.drop()

    def drop(self) -> None:
        self.open.discard(self.address)


NODES = [Address("node", port) for port in (1, 2, 3)]


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> type[FakeSource]:
    """Three nodes, each of which says that it serves all."""
    FakeSource.maps = {one: SlotMap([one] * SLOTS, frozenset(NODES)) for one in NODES}
    FakeSource.asked, FakeSource.open = [], set()
    monkeypatch.setattr(topologies, "Source", FakeSource)
    return FakeSource


async def ask(topology: Topology, *ranks: int) -> Address:
    """Who gives the map, if the nodes have these ranks."""
    _, answered = await topology._ask(lambda address: ranks[NODES.index(address)])
    return answered


async def test_the_same_node_is_asked_while_no_other_is_better(make: Make, fakes: type[FakeSource]) -> None:
    """Not one that came into use. Kept by Topology._ask."""
    topology = make([f"redis://{node}" for node in NODES])
    for ranks, expected in (((1, 0, 1), 1), ((0, 0, 0), 1), ((0, 1, 1), 0), ((0, 0, 0), 0), ((2, 2, 1), 2)):
        for _ in range(3):
            assert await ask(topology, *ranks) == NODES[expected]
        assert fakes.open == {NODES[expected]}
    assert len(fakes.asked) == 15


@pytest.mark.parametrize("again", [False, True])
async def test_asking_is_cancelled(make: Make, fakes: type[FakeSource], again: bool) -> None:
    """Once or twice, no connection is left. Kept by Topology._ask."""
    fakes.maps = {NODES[0]: BackendError("", "away", transient=True)}
    asking = asyncio.create_task(ask(make([f"redis://{node}" for node in NODES]), 0, 1, 2))
    await until(lambda: len(fakes.asked) == 3)
    asking.cancel()
    await asyncio.sleep(0)
    if again:
        asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert fakes.open == set()


async def test_an_answer_that_nobody_awaits_any_more(cluster: Cluster) -> None:
    """It must not be taken for that to the next question. Kept by Asker.ask."""
    node = cluster.masters[0]
    source = Source(Address(*node.address), Seeds([node.url]), 5.0)
    await source.find_map()
    node.freeze()
    try:
        asking = asyncio.create_task(source.find_map())
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert source.link is None
    finally:
        node.thaw()
    await cluster.until(lambda: cluster.clients() == 0)
    assert any((await source.find_map()).owners)
    await source.close()


async def test_a_node_that_is_cut_off_is_not_believed(make: Make, fakes: type[FakeSource]) -> None:
    """Unless nobody else answers. Kept by Topology._ask: `reliable`."""
    topology = make([f"redis://{node}" for node in NODES])
    own = fakes.maps[NODES[0]]
    assert isinstance(own, SlotMap)
    fakes.maps[NODES[0]] = own._replace(isolated=True)
    fakes.maps[NODES[1]] = SlotMap([None] * SLOTS, frozenset(NODES))  # of no cluster
    assert await ask(topology, 0, 1, 2) == NODES[2]
    assert fakes.open == {NODES[2]}
    fakes.maps[NODES[2]] = BackendError("", "away", transient=True)
    assert await ask(topology, 0, 1, 2) == NODES[0]
    assert fakes.open == {NODES[0]}


def of(cluster: str, *addresses: Address) -> SlotMap:
    """The map of a cluster, in which each node has an id of its own."""
    ids = frozenset(f"{cluster} {address.port}" for address in addresses)
    return SlotMap([addresses[0]] * SLOTS, frozenset(addresses), members=ids)


async def test_another_cluster_at_a_nodes_address(
    make: Make, fakes: type[FakeSource], caplog: pytest.LogCaptureFixture
) -> None:
    """It is not believed, even if nobody else answers, and that is said once. Kept by Topology._ask: `strange`."""
    topology = make([f"redis://{node}" for node in NODES])
    fakes.maps = dict.fromkeys(NODES, of("ours", *NODES))
    await ask(topology, 0, 1, 2)
    fakes.maps[NODES[0]] = of("theirs", NODES[0])
    for _ in range(3):
        assert await ask(topology, 0, 1, 2) == NODES[1]
    assert [record.getMessage() for record in caplog.records] == [
        "node:1 answers for another cluster: it is ignored; leave it out of the URLs"
    ]
    fakes.maps[NODES[1]] = fakes.maps[NODES[2]] = BackendError("", "away", transient=True)
    with pytest.raises(BackendError, match="node:1: it is part of another cluster; node:2: away"):
        await ask(topology, 0, 1, 2)
    fakes.maps[NODES[1]] = of("ours", NODES[1], Address("new", 4))
    assert await ask(topology, 0, 1, 2) == NODES[1]
    fakes.maps = {Address("new", 4): of("ours", Address("new", 4))}
    topology._seeds.addresses = [Address("new", 4)]
    topology._nodes = frozenset()
    assert await ask_any(topology) == Address("new", 4)  # one node in common is enough


async def ask_any(topology: Topology) -> Address:
    _, answered = await topology._ask(lambda address: 0)
    return answered


async def test_a_cluster_that_was_set_up_anew(make: Make, fakes: type[FakeSource]) -> None:
    """Most of the given addresses answer for it. Kept by Topology._ask: `given`."""
    topology = make([f"redis://{node}" for node in NODES])
    fakes.maps = dict.fromkeys(NODES, of("ours", *NODES))
    await ask(topology, 0, 1, 2)
    fakes.maps = {NODES[0]: of("anew", *NODES), NODES[1]: of("anew", *NODES), NODES[2]: BackendError("", "away")}
    assert await ask(topology, 0, 1, 2) in NODES[:2]
    fakes.maps[NODES[2]] = of("anew", *NODES)
    assert await ask(topology, 2, 1, 0) == NODES[2]
