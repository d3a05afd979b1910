"""How long a process keeps a name for its own tasks while other processes wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiolock import LockManager
from aiolock.core.waiting.wait import TURN, Turn
from aiolock.testing import MemoryBackend
from tests.support.locks import nothing_held

from .world import Crew, Holder, assert_empty, settle


def hand_offs(turn: Turn, now: float = 0.0) -> int:
    """How many a turn has left at that time."""
    count = 0
    while not turn.hand_on(now):
        count += 1
        assert count < 1000
    return count


@pytest.mark.parametrize(
    ("limit", "waiting", "expected"), [(16, 0, 0), (16, 5, 5), (16, 16, 16), (16, 40, 16), (0, 9, 0)]
)
def test_it_serves_the_tasks_that_waited_when_it_began_up_to_its_limit(limit: int, waiting: int, expected: int) -> None:
    assert hand_offs(Turn(0.0, waiting, limit)) == expected


def test_it_ends_when_it_is_old() -> None:
    turn = Turn(100.0, 16, 16)
    assert not turn.hand_on(100.0 + TURN * 0.99)
    assert turn.hand_on(100.0 + TURN * 1.01)


async def test_the_next_task_runs_before_the_one_that_left(locks: LockManager) -> None:
    """Which may do a lot before it waits again. Kept by _Transfer._settle: the heir is first."""
    events: list[str] = []

    async def visit(name: str) -> None:
        async with locks.lock("a"):
            events.append(f"{name} enters")
            await asyncio.sleep(0)
        events.append(f"{name} goes on")

    async with asyncio.TaskGroup() as group:
        for name in ("first", "second"):
            group.create_task(visit(name))
    assert events == ["first enters", "second enters", "first goes on", "second goes on"]


# Between processes.


@pytest.fixture
async def greedy(backend: MemoryBackend, crew: Crew) -> AsyncIterator[LockManager]:
    """A process with many tasks, and a limit of three hand-offs."""
    async with LockManager(MemoryBackend(backend), handoff_limit=3) as manager:
        yield manager
        await crew.dismiss()
        await settle(backend)
        assert_empty(manager)
    assert nothing_held(backend)


async def come(crew: Crew, manager: LockManager, count: int, backend: MemoryBackend) -> list[Holder]:
    """Start this many tasks that want it, one after the other."""
    holders = [Holder(crew, manager.lock("a")) for _ in range(count)]
    await settle(backend)
    return holders


async def served(backend: MemoryBackend, tasks: dict[str, list[Holder]], pause: float = 0.0) -> str:
    """Let one after the other enter and leave, in the order in which they enter; return whose each was."""
    order = ""
    left = {id(one): (name, one) for name, ones in tasks.items() for one in ones}
    while left:
        (key,) = [key for key, (_, one) in left.items() if one.entered.done()]
        name, one = left.pop(key)
        order += name
        await backend.clock.advance(pause)
        await one.end()
        await settle(backend)
    return order


async def test_processes_take_turns(greedy: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    """Tasks that wait in the same process share its place in the queue."""
    mine = await come(crew, greedy, 8, backend)
    others = await come(crew, peer, 3, backend)
    assert await served(backend, {"m": mine, "o": others}) == "mmmm" + "ooo" + "mmmm"


async def test_the_limit_ends_a_turn(
    greedy: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    first = await come(crew, peer, 1, backend)
    mine = await come(crew, greedy, 8, backend)
    others = await come(crew, peer, 2, backend)
    assert await served(backend, {"p": first, "m": mine, "o": others}) == "p" + "mmmm" + "oo" + "mmmm"


async def test_its_age_ends_a_turn(greedy: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew) -> None:
    first = await come(crew, peer, 1, backend)
    mine = await come(crew, greedy, 4, backend)
    others = await come(crew, peer, 4, backend)
    assert await served(backend, {"p": first, "m": mine, "o": others}, pause=TURN * 1.1) == "p" + "mo" * 4


async def test_a_newcomer_in_a_turn_waits_for_the_next(
    greedy: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """A task that came after it began is not served in it while others wait."""
    (first,) = await come(crew, peer, 1, backend)
    mine = await come(crew, greedy, 2, backend)
    others = await come(crew, peer, 1, backend)
    await first.end()
    await settle(backend)
    mine += await come(crew, greedy, 2, backend)
    assert await served(backend, {"m": mine, "o": others}) == "mmomm"


async def test_a_turn_continues_while_no_one_else_waits(
    greedy: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    mine = await come(crew, greedy, 12, backend)
    own = greedy._runtime.backend
    assert isinstance(own, MemoryBackend)
    own.calls.clear()
    assert await served(backend, {"m": mine}, pause=TURN) == "m" * 12
    assert own.calls == ["transfer"] * 11 + ["release"]


async def test_no_hand_off_at_limit_zero(backend: MemoryBackend, peer: LockManager, crew: Crew) -> None:
    """A waiter elsewhere is next, and the process's own tasks go behind it."""
    async with LockManager(MemoryBackend(backend), handoff_limit=0) as modest:
        mine = await come(crew, modest, 3, backend)
        others = await come(crew, peer, 3, backend)
        assert await served(backend, {"m": mine, "o": others}) == "m" + "ooo" + "mm"


async def test_two_modest_processes_alternate(backend: MemoryBackend, crew: Crew, locks: LockManager) -> None:
    one, other = (LockManager(MemoryBackend(backend), handoff_limit=0) for _ in range(2))
    async with one, other:
        mine, others = await come(crew, one, 3, backend), await come(crew, other, 3, backend)
        assert await served(backend, {"m": mine, "o": others}) == "mo" * 3


async def test_a_fair_task_that_is_first_ends_a_turn(
    greedy: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """Hazard 13: the holder passes on at once. Kept by transfer.lua: `:f`."""
    (first,) = await come(crew, peer, 1, backend)
    mine = await come(crew, greedy, 3, backend)
    fair = Holder(crew, peer.fair_lock("a"))
    await settle(backend)
    await first.end()
    await settle(backend)
    assert await served(backend, {"m": mine, "f": [fair]}) == "mfmm"


async def test_fair_tasks_enter_in_order_of_arrival(
    greedy: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """Whatever process they belong to, and no turn lasts."""
    fair: dict[str, list[Holder]] = {}
    for name, manager in zip("abcdef", [greedy, peer, peer, greedy, greedy, peer], strict=True):
        fair[name] = [Holder(crew, manager.fair_lock("x"))]
        await settle(backend)
    assert await served(backend, fair) == "abcdef"
