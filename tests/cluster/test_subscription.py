"""Channels on several nodes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aiolock.backends.base import Wake
from aiolock.backends.cluster import subscription as subscriptions
from aiolock.backends.cluster.node import Node
from aiolock.backends.cluster.subscription import Subscription
from aiolock.backends.redis.seeds import Address
from aiolock.errors import BackendError
from tests.faults.scene import until


class Connection:
    """A node's connection, as far as it hears; `nearby` is its other half, by sharded pub/sub."""

    def __init__(self, nearby: Connection | None = None) -> None:
        self.wake: Wake | None = None
        self.told: asyncio.Future[None] | None = None
        self.nearby: Connection | None = nearby

    def subscribe(self, channel: str, wake: Wake, *, sharded: bool = False) -> asyncio.Future[None]:
        if sharded and self.nearby is not None:
            return self.nearby.subscribe(channel, wake)
        self.wake = wake
        self.told = asyncio.get_running_loop().create_future()
        return self.told

    def unsubscribe(self, channel: str) -> None:
        self.wake = None
        if self.nearby is not None:
            self.nearby.wake = None

    def hear(self, payload: str | BackendError | None) -> None:
        assert self.wake is not None
        self.wake(payload)

    def refuse(self, error: BackendError) -> None:
        assert self.told is not None
        self.told.set_exception(error)


Made = tuple[Subscription, list[Connection], list[object]]


@pytest.fixture
def make() -> Callable[[str], Made]:
    def make(channel: str) -> Made:
        heard: list[object] = []
        made = Subscription(channel, heard.append, lambda: None)
        connections = []
        for number in range(3):
            node = Node(Address("node", number))
            connections.append(Connection())
            node.backend, node.used = connections[-1], True  # type: ignore[assignment]
            made.join(node)
        return made, connections, heard

    return make


async def test_the_first_confirmation_counts(make: Callable[[str], Made]) -> None:
    """A later one says that something may have been missed there."""
    made, (one, two, _), heard = make("manager")
    assert not made.future.done()
    two.hear(None)
    await made.future
    one.hear(None)
    assert heard == [None, None]


async def test_a_node_that_is_closed_is_forgotten(make: Callable[[str], Made]) -> None:
    """Otherwise each failover would leave one behind. Kept by Subscription.join."""
    made, _, _ = make("manager")
    (gone, *rest) = sorted(made._nodes, key=lambda node: node.address)
    gone.used = False
    came = Node(gone.address)
    came.backend, came.used = Connection(), True  # type: ignore[assignment]
    made.join(came)
    assert made._nodes == {*rest, came}


async def test_a_message_is_delivered_once(make: Callable[[str], Made], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node passes it on. One that is repeated comes by each of them again. Kept by Subscription._known."""
    _, (one, two, three), heard = make("manager")
    two.hear("a")
    one.hear("a")
    one.hear("a")
    three.hear("b")
    two.hear("a")
    two.hear("b")
    assert heard == ["a", "b", "a"]
    monkeypatch.setattr(subscriptions, "REPEATED", -1.0)  # much later
    one.hear("a")
    one.hear("a")
    assert heard == ["a", "b", "a", "a", "a"]


async def test_a_sharded_message_has_no_copies(make: Callable[[str], Made]) -> None:
    """So the same one that came by all nodes a moment before was another. Kept by Subscription._heard_nearby."""
    made, (one, two, _), heard = make("manager")
    two.hear("refresh x")
    one.hear("refresh x")
    node = next(node for node in made._nodes if node.backend is one)  # type: ignore[comparison-overlap]
    made.sharded.attend("lock:{a}", node)
    for _ in range(2):
        one.hear("refresh x")
    assert heard == ["refresh x"] * 3
    made.end()


async def test_a_refusal(make: Callable[[str], Made]) -> None:
    """At first it is the answer; later the listener is told."""
    made, (one, two, _), heard = make("manager")
    one.refuse(BackendError("", "NOPERM"))
    with pytest.raises(BackendError, match="NOPERM"):
        await made.future
    made, (one, two, _), heard = make("manager")
    one.hear(None)
    two.refuse(BackendError("", "NOPERM"))
    await asyncio.sleep(0)
    assert [str(each) for each in heard] == ["None", "NOPERM"]


async def test_a_passing_refusal_is_repeated(make: Callable[[str], Made], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "RETRY", 0.0)
    _, (one, two, _), heard = make("manager")
    one.hear(None)
    first = two.told
    two.refuse(BackendError("", "LOADING", transient=True))
    await until(lambda: two.told is not first)
    assert heard == [None]


Tagged = tuple[Subscription, Callable[[], tuple[Node, Connection, Connection]], list[object]]


@pytest.fixture
async def tagged() -> Tagged:
    """A channel with a tag, what makes a node with its connection both ways, and what is heard; "map" if one is asked
    for.
    """
    heard: list[object] = []
    made = Subscription("latch:{a}", heard.append, lambda: heard.append("map"))
    assert made.slot is not None

    def add() -> tuple[Node, Connection, Connection]:
        node, nearby = Node(Address("node", 4)), Connection()
        connection = Connection(nearby)
        node.backend, node.used = connection, True  # type: ignore[assignment]
        return node, connection, nearby

    return made, add, heard


async def test_a_tagged_channel_is_heard_both_ways(tagged: Tagged) -> None:
    """And confirmed when both are. Kept by Subscription.join."""
    made, add, heard = tagged
    node, connection, nearby = add()
    made.move(node)
    nearby.hear(None)
    assert (heard, made.future.done()) == ([], False)
    connection.hear(None)
    await made.future
    nearby.hear("0")
    connection.hear("0")
    nearby.hear(None)  # after a reconnect
    assert heard == [None, "0", "0", None]
    made.end()
    assert (connection.wake, nearby.wake) == (None, None)


async def test_a_tagged_channel_moves(tagged: Tagged) -> None:
    """What the old node still says is dropped, and nothing of what the new one says. Kept by Subscription._heard."""
    made, add, heard = tagged
    (old, one, one_nearby), (new, two, two_nearby) = add(), add()
    made.move(old)
    one.hear("0")
    late = one.wake, one_nearby.wake
    made.move(new)
    assert (one.wake, one_nearby.wake) == (None, None)
    for wake in late:
        assert wake is not None
        wake("late")
        wake(BackendError("", "late", transient=True))
    two.hear(None)
    two.hear("0")
    two_nearby.hear("0")
    assert heard == ["0", None, "0", "0"]
    made.end()
    assert (two.wake, two_nearby.wake) == (None, None)


@pytest.mark.parametrize("at_first", [True, False])
async def test_a_slot_that_leaves_and_comes_back(
    tagged: Tagged, monkeypatch: pytest.MonkeyPatch, at_first: bool
) -> None:
    """The map is asked for; a node that has the slot again is listened to. Kept by Subscription._lost_nearby."""
    monkeypatch.setattr(subscriptions, "RETRY", 0.0)
    made, add, heard = tagged
    node, connection, nearby = add()
    made.move(node)
    first = nearby.told
    if at_first:
        nearby.refuse(BackendError("", "MOVED 1 node:2"))
    else:
        nearby.hear(BackendError("", "moved", transient=True))
    connection.hear(None)
    await until(lambda: nearby.told is not first)
    nearby.hear("0")
    assert heard == [*([] if at_first else ["map"]), None, *(["map"] if at_first else []), None, "0"]
    made.end()


async def test_a_node_without_sharded_channels(tagged: Tagged) -> None:
    """It is not asked again. Kept by Subscription._answered_nearby."""
    made, add, heard = tagged
    node, connection, nearby = add()
    made.move(node)
    nearby.refuse(BackendError("", "unknown command 'SSUBSCRIBE'"))
    connection.hear(None)
    await made.future
    await asyncio.sleep(0)
    assert (heard, node.shards) == ([None], False)
    again = Subscription("latch:{a}", heard.append, lambda: None)
    nearby.wake = None
    again.move(node)
    assert nearby.wake is None


async def test_slots_move_while_it_waits(make: Callable[[str], Made]) -> None:
    """Many at once when a master is replaced: the map is asked for, and one answer says that something may have been
    missed. Kept by Subscription._ended.
    """
    made, (one, _, _), heard = make("manager")
    maps: list[None] = []
    made._moved = lambda: maps.append(None)
    node = next(node for node in made._nodes if node.backend is one)  # type: ignore[comparison-overlap]
    ends = []
    for key in ("lock:{a}", "lock:{b}"):
        made.sharded.attend(key, node)
        ends.append(one.wake)
    for end in ends:
        assert end is not None
        end(BackendError("", "moved", transient=True))
    await asyncio.sleep(0)
    assert (heard, len(maps)) == ([None], 1)
    made.end()
