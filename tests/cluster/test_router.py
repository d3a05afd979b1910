"""Requests keep their order while slots move, nodes die, and maps are stale: with generated interleavings."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolock.backends.cluster import transit as transits
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


@given(st.lists(STEP, max_size=40))
@examples(300)
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
        works = [work for work in world.works if work.name == name]
        for number, work in enumerate(works):
            for later in works[number + 1 :]:
                assert in_order(work, later), (work, work.runs, work.asked_at, later, later.runs)


def in_order(work: Work, later: Work) -> bool:
    """Every run of `work` after one of `later` was approved by its maker in between."""
    return all(
        any(ran < asked < again for asked in work.asked_at) for again in work.runs for ran in later.runs if ran < again
    )
