"""Requests keep their order while slots move, nodes die, and maps are stale: with generated interleavings."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiolock.backends.cluster import router as routers
from aiolock.backends.cluster import transit as transits
from aiolock.backends.cluster.slots import slot_of
from tests.support.generated import examples

from .world import NAMES, Work, World

A, B, C = range(3)

NODE = st.integers(0, 2)
NAME = st.sampled_from(NAMES)
STEP = st.one_of(
    st.tuples(st.just("call"), NAME, st.booleans()),
    st.tuples(st.just("call"), NAME, st.booleans()),
    st.tuples(st.just("withdraw"), st.integers(0, 5)),
    st.tuples(st.just("serve"), NODE),
    st.tuples(st.just("serve"), NODE),
    st.tuples(st.just("move"), NAME, NODE),
    st.tuples(st.just("migrate"), NAME, NODE),
    st.tuples(st.just("assign"), NAME),
    st.tuples(st.just("lose"), NODE, st.integers(0, 3)),
    st.tuples(st.just("reconnect"), NODE),
    st.tuples(st.just("learn")),
    st.tuples(st.just("remember")),
    st.tuples(st.just("recall")),
    st.tuples(st.just("down"), st.booleans()),
    st.tuples(st.just("turn")),
)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transits, "FIRST", 0.0)


@example([("call", "a", False), ("move", "a", 1), ("learn",), ("call", "a", True), ("lose", 0, 0)])
@example([("call", "a", True), ("call", "a", True), ("migrate", "a", 1), ("serve", 0), ("assign", "a"), ("serve", 0)])
@given(st.lists(STEP, max_size=40))
@examples(200)
def test_every_interleaving(steps: list[tuple[object, ...]]) -> None:
    """Each call ends once. None runs twice, or after a later one of its name, unless its maker was asked."""
    asyncio.run(interleave(steps))


async def interleave(steps: list[tuple[object, ...]]) -> None:
    world = World()
    old = world.map()
    for what, *args in steps:
        match what, args:
            case "call", [str(name), bool(wanted)]:
                world.call(name, wanted)
            case "withdraw", [int(number)]:
                for work in world.works[number : number + 1]:
                    work.withdraw()
            case "serve", [int(number)]:
                serve(world, number)
            case "move", [str(name), int(number)]:
                world.owner[name] = world.addresses[number]
                world.moving.pop(name, None)
            case "migrate", [str(name), int(number)]:
                world.moving[name] = world.addresses[number]
            case "assign", [str(name)]:
                world.owner[name] = world.moving.pop(name, world.owner[name])
            case "lose", [int(number), int(executed)]:
                if (link := world.links.get(world.addresses[number])) is not None:
                    link.lose(executed)
            case "reconnect", [int(number)]:
                if (link := world.links.get(world.addresses[number])) is not None:
                    link.reconnect()
            case "learn", []:
                world.learn()
            case "remember", []:
                old = world.map()
            case "recall", []:
                world.router.learn(old)
            case "down", [bool(down)]:
                world.down = down
            case "turn", []:
                await asyncio.sleep(0)
    await heal(world)
    judge(world)


def serve(world: World, number: int) -> None:
    if (link := world.links.get(world.addresses[number])) is not None:
        link.serve()


async def heal(world: World) -> None:
    """Everything works again, and is given time."""
    world.down = False
    world.moving.clear()
    for link in world.links.values():
        link.reconnect()
    world.learn()
    for _ in range(2000):
        for number in range(len(world.addresses)):
            serve(world, number)
        await asyncio.sleep(0)
        if all(work.results for work in world.works) and not world.router.transits:
            return
    raise AssertionError([work for work in world.works if not work.results], world.router.transits)


def judge(world: World) -> None:
    for work in world.works:
        assert len(work.results) == 1, work
        assert len(work.runs) <= 1 + len(work.asked_at), work
        assert work.writes <= 1 + len(work.asked_at), work
        if work.withdrawn:
            assert work.runs == []
    for name in NAMES:
        works = sorted((work for work in world.works if work.name == name), key=lambda work: work.place)
        for number, work in enumerate(works):
            for later in works[number + 1 :]:
                assert in_order(work, later), (work, work.runs, work.asked_at, later, later.runs)


def in_order(work: Work, later: Work) -> bool:
    """Every run of `work` after one of `later` was approved by its maker in between; or the other ran before there was
    anything in the place of `work`.
    """
    return all(
        any(ran < asked < again for asked in work.asked_at)
        for again in work.runs
        for ran in later.runs
        if work.made_at < ran < again
    )


async def test_a_late_redirection_does_not_undo_a_newer_map() -> None:
    """Two cross: the map says C, and then A, which was asked before, says B. Kept by Router.refused: `is node`."""
    world = World()
    one, two = world.call("a"), world.call("a")
    world.owner["a"] = world.addresses[B]
    serve(world, A)
    old = world.owner["a"]
    world.owner["a"] = world.addresses[C]
    world.learn()
    world.owner["a"] = old
    serve(world, A)  # it has heard nothing of C
    world.owner["a"] = world.addresses[C]
    for _ in range(3):
        await asyncio.sleep(0)
    assert B not in [address.port for address, link in world.links.items() if link.way]
    await heal(world)
    assert one.runs < two.runs
    assert (one.writes, two.writes, world.refreshes) == (1, 1, 2)


async def test_a_redirection_moves_one_slot_at_once() -> None:
    """New calls go to the new owner directly, once those before them are answered. Kept by Router.refused."""
    world = World()
    first = world.call("a")
    world.owner["a"] = world.addresses[B]
    serve(world, A)
    await asyncio.sleep(0)
    serve(world, B)
    await asyncio.sleep(0)
    assert (first.results, world.router.transits, world.refreshes) == (["x"], {}, 1)
    second = world.call("a")
    serve(world, B)
    assert second.results == ["x"]
    assert [node.address.port for node in world.joined] == [A, B]


async def test_a_master_that_was_replaced_has_its_holds_verified() -> None:
    """Kept by Router.learn: `replaced`. A slot that moves takes its keys along, so it is no reason."""
    world = World()
    for name in NAMES:
        world.call(name)
    world.owner["a"] = world.addresses[B]
    world.learn()
    assert world.verified == 0
    world.owner["b"] = world.addresses[B]
    world.learn()
    world.learn()
    assert world.verified == 1


@pytest.mark.parametrize(
    ("epoch", "knows_it", "moves"),
    [(4, True, False), (5, True, True), (6, True, True), (0, True, False), (4, False, True)],
    ids=["older", "of one age", "newer", "unknown", "another cluster"],
)
async def test_an_old_map_takes_nothing_away(epoch: int, knows_it: bool, moves: bool) -> None:
    """Such as that of a master that was cut off, and replaced. Kept by Router._outdated."""
    world = World()
    world.epochs = {world.addresses[A]: 5}
    world.learn()
    for name in NAMES:
        world.call(name)
        world.owner[name] = world.addresses[B]
    world.epochs = {world.addresses[B]: epoch, **({world.addresses[A]: 5} if knows_it else {})}
    world.learn()
    assert world.verified == moves
    assert {owner.address.port for owner in world.router.owners if owner is not None} == {B if moves else A}


async def test_a_silent_master_that_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was asked is asked of the new one, long before its connection is given up. Kept by Router._give_up."""
    monkeypatch.setattr(routers, "GRACE", 0.01)
    world = World()
    works = [world.call("a"), world.call("a", wanted=False)]
    world.owner["a"] = world.owner["b"] = world.addresses[B]
    world.learn()
    assert [work.asked_at for work in works] == [[], []]
    async with asyncio.timeout(5.0):
        while not all(work.asked_at for work in works):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    await heal(world)
    assert len(works[0].runs) == 1
    assert [len(work.results) for work in world.works] == [1, 1, 1]


async def test_a_replaced_master_that_answers_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routers, "GRACE", 0.0)
    world = World()
    world.call("a")
    world.owner["a"] = world.owner["b"] = world.addresses[B]
    world.learn()
    serve(world, A)  # MOVED
    await asyncio.sleep(0.01)
    assert world.links[world.addresses[A]].connected


@pytest.mark.parametrize("lost_first", [False, True])
async def test_no_connection_is_made_to_a_node_without_slots(lost_first: bool) -> None:
    """Whoever answers there later is a replica, which would be reported as if the user had given its address."""
    world = World()
    serve_all = [world.call(name) for name in NAMES]
    old, link = world.addresses[A], world.links[world.addresses[A]]
    while link.way:
        serve(world, A)
    if lost_first:
        link.lose(0)
    world.owner = dict.fromkeys(NAMES, world.addresses[B])
    world.learn()
    world.call("a")  # B is used
    await asyncio.sleep(0)
    if not lost_first:
        assert old in world.router._nodes
        link.lose(0)
    await asyncio.sleep(0)
    world.learn()
    await asyncio.sleep(0)
    assert link.closed
    assert old not in world.router._nodes
    assert all(work.results for work in serve_all)


async def test_it_is_in_use() -> None:
    """While something is needed, or a request is on its way. Kept by Router.in_use."""
    world = World()
    assert not world.router.in_use
    world.needed = True
    assert world.router.in_use
    world.needed = False
    world.call("a")
    assert world.router.in_use
    serve(world, A)
    assert not world.router.in_use


async def test_who_is_asked_first() -> None:
    """Kept by Router.rank: not the master that may have been replaced."""
    world = World()
    world.call("a")
    assert [world.router.rank(address) for address in world.addresses] == [1, 0, 0]
    world.links[world.addresses[A]].lose(0)
    assert world.router.rank(world.addresses[A]) == 2


async def test_a_request_that_no_node_runs_can_be_withdrawn() -> None:
    """As long as the cluster is down: it was written, and did not run. Kept by Refusals and Transit."""
    world = World()
    world.down = True
    work = world.call("a")
    for _ in range(3):
        serve(world, A)
        await asyncio.sleep(0)
    assert "CLUSTERDOWN" in str(world.router.away(slot_of("a")))
    serve(world, A)
    assert work.withdraw()
    await heal(world)
    assert work.runs == []
    assert "withdrawn" in str(work.results)
    assert world.router.away(slot_of("a")) is None


async def test_only_the_node_of_a_name_explains_its_silence() -> None:
    """Kept by Router.away."""
    world = World()
    world.owner["b"] = world.addresses[B]
    world.learn()
    for name in NAMES:
        world.call(name)
    world.links[world.addresses[A]].lose(0)
    assert "node:0 is unreachable" in str(world.router.away(slot_of("a")))
    assert world.router.away(slot_of("b")) is None
    assert "node:0 is unreachable" in str(world.router.unreachable)


async def test_a_slot_that_no_one_serves() -> None:
    """Requests wait, and can be withdrawn. Kept by Transit._advance and Transit._queue."""
    world = World()
    owner = world.owner.pop("a")
    world.learn()
    works = [world.call("a") for _ in range(3)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert "no node serves" in str(world.router.away(slot_of("a")))
    assert works[1].withdraw()
    for _ in range(3):
        await asyncio.sleep(0)
    assert [len(work.results) for work in works] == [0, 1, 0]
    world.owner["a"] = owner
    await heal(world)
    assert works[0].runs < works[2].runs


async def test_a_node_that_is_closed_while_a_request_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no slots yet, and a key is on its way to it: the owner is asked again. Kept by Transit._queue: `used`."""
    monkeypatch.setattr(routers, "KEEP", 0.0)
    monkeypatch.setattr(transits, "AT_ONCE", 0)  # it pauses
    world = World()
    work = world.call("a")
    world.moving["a"] = world.addresses[B]
    serve(world, A)  # ASK
    world.learn()  # B serves nothing
    world.router._close_idle()
    for _ in range(3):
        await asyncio.sleep(0)
    assert world.links[world.addresses[B]].closed
    assert world.router.transits
    world.moving.clear()
    async with asyncio.timeout(5.0):
        while world.router.transits or not work.results:
            serve(world, A)
            await asyncio.sleep(0.001)
    assert (work.results, len(work.runs)) == (["x"], 1)


@pytest.mark.parametrize("early", [True, False])
async def test_closing_while_a_slots_owner_does_not_serve_it(early: bool) -> None:
    """Its answer says that no one does, before the map does. Kept by Router.refused: UNSERVED."""
    world = World()
    work = world.call("a")
    world.owner.pop("a")
    world.down = not early
    serve(world, A)
    closing = asyncio.create_task(world.router.finish(60.0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert closing.done() == early
    world.down = False
    async with asyncio.timeout(5.0):
        while not closing.done():
            serve(world, A)
            await asyncio.sleep(0.001)
    assert (work.results, work.runs) == ([], [])


@pytest.mark.parametrize("another", [False, True])
async def test_closing_while_no_one_serves_a_slot(another: bool) -> None:
    """It waits for another slot, whose owner runs requests soon, and not for this one: it knows no one who could. Kept
    by Router.finish: `_expecting`.
    """
    world = World()
    unserved = world.call("b") if another else None
    if another:
        world.down = True
        served = world.call("a")
        serve(world, A)
        serve(world, A)  # CLUSTERDOWN
        world.owner.pop("b")
    else:
        world.owner.pop("b")
        world.learn()
        unserved = world.call("b")
    world.learn()
    closing = asyncio.create_task(world.router.finish(60.0))
    for _ in range(3):
        await asyncio.sleep(0)
    assert closing.done() != another
    world.down = False
    async with asyncio.timeout(5.0):
        while not closing.done():
            serve(world, A)
            await asyncio.sleep(0.001)
    assert unserved is not None
    assert unserved.results == []
    assert not another or served.results == ["x"]


async def test_a_master_that_is_away_may_have_been_replaced() -> None:
    """Only a map that is newer than a request says that it was not. Kept by Router.missed: without it, the first use
    after a failover reports an outage.
    """
    world = World()
    work = world.call("a")
    slot, (link,) = slot_of("a"), [world.links[world.addresses[A]]]
    link.lose(0)
    assert not world.router.missed(slot, 0.0)
    assert world.refreshes
    world.learn()
    assert world.router.missed(slot, 0.0)
    assert not world.router.missed(slot, asyncio.get_running_loop().time())
    world.owner["a"] = world.addresses[B]
    world.learn()
    assert not world.router.missed(slot, 0.0)
    for _ in range(3):
        await asyncio.sleep(0)
        serve(world, B)
    assert work.results == ["x"]
