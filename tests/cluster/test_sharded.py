"""Where a manager listens by sharded pub/sub, and until when."""

from __future__ import annotations

import asyncio

import pytest

from aiolock.backends.base import Wake
from aiolock.backends.cluster import sharded
from aiolock.backends.cluster.node import Node
from aiolock.backends.cluster.sharded import ShardedChannels
from aiolock.backends.redis.seeds import Address
from aiolock.errors import BackendError
from tests.faults.scene import until

MOVED = BackendError("", "Redis refused a subscription: MOVED 1 node:2")
DENIED = BackendError("", "Redis refused a subscription: NOPERM")
ENDED = BackendError("", "the slot of a channel has moved", transient=True)


class Connection:
    """A node's connection, as far as it hears by sharded pub/sub."""

    def __init__(self) -> None:
        self.wakes: dict[str, Wake] = {}
        self.told: dict[str, asyncio.Future[None]] = {}

    def subscribe(self, channel: str, wake: Wake, *, sharded: bool = False) -> asyncio.Future[None]:
        assert sharded
        self.wakes[channel] = wake
        self.told[channel] = asyncio.get_running_loop().create_future()
        return self.told[channel]

    def unsubscribe(self, channel: str) -> None:
        del self.wakes[channel]


class Scene:
    """A manager's channel, and two nodes."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.ended = 0
        self.channels = ShardedChannels("m", self.heard.append, self._end)
        self.connections = Connection(), Connection()
        self.nodes = [Node(Address("node", number)) for number in range(2)]
        for node, connection in zip(self.nodes, self.connections, strict=True):
            node.backend, node.used = connection, True  # type: ignore[assignment]

    def _end(self) -> None:
        self.ended += 1


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_once_for_each_tag(scene: Scene) -> None:
    """Its confirmation is no news: until then messages come by the channel itself. Kept by ShardedChannels.attend."""
    one, (connection, _) = scene.nodes[0], scene.connections
    scene.channels.attend("lock:{a}", one)
    first = connection.wakes["m:{a}"]
    scene.channels.attend("lock:{a}:queue", one)
    scene.channels.attend("lock:{b}", one)
    assert list(connection.wakes) == ["m:{a}", "m:{b}"]
    assert connection.wakes["m:{a}"] is first
    first(None)
    first("x")
    assert (scene.heard, scene.ended) == (["x"], 0)
    scene.channels.end()
    assert connection.wakes == {}


async def test_the_slot_moves(scene: Scene) -> None:
    """The old node says so, or the next answer comes from another. Kept by ShardedChannels._forget."""
    (one, two), (connection, other) = scene.nodes, scene.connections
    scene.channels.attend("{a}", one)
    late = connection.wakes["m:{a}"]
    late(ENDED)
    assert scene.ended == 1
    late(ENDED)  # as after a reconnect
    assert scene.ended == 1
    scene.channels.attend("{a}", two)
    late(ENDED)
    assert scene.ended == 1
    assert "m:{a}" in other.wakes
    scene.channels.attend("{a}", one)
    assert (list(connection.wakes), list(other.wakes)) == (["m:{a}"], [])


@pytest.mark.parametrize(("error", "again"), [(MOVED, True), (ENDED, True), (DENIED, False)])
async def test_a_refusal(scene: Scene, error: BackendError, again: bool) -> None:
    """The next answer by which it waits tries again, unless the node offers no sharded pub/sub."""
    one, (connection, _) = scene.nodes[0], scene.connections
    scene.channels.attend("{a}", one)
    told = connection.told.pop("m:{a}")
    told.set_exception(error)
    await asyncio.sleep(0)
    scene.channels.attend("{a}", one)
    scene.channels.attend("{b}", one)
    assert set(connection.told) == ({"m:{a}", "m:{b}"} if again else set())
    assert scene.ended == 0


async def test_a_node_that_is_no_longer_used(scene: Scene) -> None:
    one, two = scene.nodes
    scene.channels.attend("{a}", one)
    one.used = False
    scene.channels.attend("{a}", one)
    scene.channels.attend("{a}", two)
    assert list(scene.connections[1].wakes) == ["m:{a}"]


async def test_it_stops_when_it_no_longer_waits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept by ShardedChannels._leave_idle."""
    monkeypatch.setattr(sharded, "KEEP", 0.01)
    one, (connection, _) = scene.nodes[0], scene.connections
    scene.channels.attend("{a}", one)
    scene.channels.attend("{b}", one)

    def only_b() -> bool:
        scene.channels.attend("{b}", one)
        return list(connection.wakes) == ["m:{b}"]

    await until(only_b)
    await until(lambda: not connection.wakes)
    scene.channels.attend("{a}", one)
    assert list(connection.wakes) == ["m:{a}"]
    scene.channels.end()
