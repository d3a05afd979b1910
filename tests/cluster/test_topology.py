"""The map of a cluster: whom it is asked of, and how often."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from aiolock import BackendError, ConfigurationError
from aiolock.backends.cluster import topology as topologies
from aiolock.backends.cluster.slots import SLOTS, SlotMap
from aiolock.backends.cluster.topology import Topology
from aiolock.backends.redis import Address, Seeds
from aiolock.testing.server import RedisServer
from tests.faults.scene import until
from tests.support.cluster import Cluster


class Owner:
    """Whoever needs the map.

    Attributes:
        learned: what it was told.
        unsettled: it needs another.
    """

    def __init__(self) -> None:
        self.learned: list[SlotMap] = []
        self.unsettled = False
        self.doubtful: set[Address] = set()

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
