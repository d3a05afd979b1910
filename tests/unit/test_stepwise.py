"""A multi lock whose names lie in several places: one after the other in the same order, all or none, one lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, nullcontext
from typing import Any, Literal

import pytest

from aiolock import AcquireTimeout, BackendError, ConfigurationError, LockLost, LockManager, LossReason, MultiLock
from aiolock.repeats import PERIOD
from aiolock.scripts.base import Call
from aiolock.scripts.keys import Keys
from aiolock.scripts.multi.spread import multi_calls
from aiolock.testing import MemoryBackend
from tests.support.scattered import Scattered

from .world import (
    DEADLINE,
    TTL,
    Crew,
    Holder,
    assert_empty,
    expect_loss,
    lock_keys,
    settle,
    state_of,
    step_wall,
    tombstones,
)


class World:
    """Two managers on three servers: a, b and c are each on one of their own."""

    def __init__(self, locks: LockManager, others: LockManager, backend: Scattered, nodes: list[MemoryBackend]) -> None:
        self.locks, self.others, self.backend, self.nodes = locks, others, backend, nodes
        self.clock = nodes[0].clock

    def node(self, name: str) -> MemoryBackend:
        node = self.backend.node(name)
        assert isinstance(node, MemoryBackend)
        return node

    def holder(self, name: str) -> str:
        return state_of(self.node(name), name).holder

    def held(self, names: str = "abc") -> str:
        return "".join(name for name in names if self.holder(name))

    def fence(self, name: str) -> int:
        return state_of(self.node(name), name).fence

    def nothing_left(self) -> None:
        assert [lock_keys(node) for node in self.nodes] == [[]] * len(self.nodes)
        assert_empty(self.locks)


@pytest.fixture
async def crew() -> AsyncIterator[Crew]:
    crew = Crew()
    yield crew
    await crew.dismiss()


@pytest.fixture
async def world(crew: Crew) -> AsyncIterator[World]:
    first = MemoryBackend()
    nodes = [first, MemoryBackend(clock=first.clock), MemoryBackend(clock=first.clock)]
    mine, theirs = Scattered(nodes), Scattered([MemoryBackend(node) for node in nodes])
    async with AsyncExitStack() as stack:
        locks = await stack.enter_async_context(LockManager(mine))
        others = await stack.enter_async_context(LockManager(theirs))
        world = World(locks, others, mine, nodes)
        mine.ran.clear()
        yield world
        await crew.dismiss()
        await settle(first)
        world.nothing_left()


async def test_it_holds_all(world: World) -> None:
    async with world.locks.multi_lock("c", "a", "b") as lease:
        assert world.held() == "abc"
        assert lease.name == "a + b + c"
        assert len({world.holder(name) for name in "abc"}) == 1
        assert {world.fence(name) for name in "abc"} == {lease.fence}
    assert world.held() == ""


async def test_one_place_after_the_other_and_then_one_fence(world: World) -> None:
    """n places cost n + 1 round trips: the last one is to all of them at once."""
    async with world.locks.multi_lock("b1", "a", "b2"):
        assert world.backend.ran == ["acquire a", "acquire b", "renew a", "renew b"]
        world.backend.ran.clear()
    assert world.backend.ran == ["release a", "release b"]


async def test_names_in_one_place_take_one_request(world: World) -> None:
    """Kept by multi_calls: one group is no group."""
    async with world.locks.multi_lock("b1", "b2"):
        assert world.backend.ran == ["acquire b"]


async def test_one_lease(world: World) -> None:
    lock = world.locks.multi_lock("a", "b", "c")
    assert await lock.info() == {}
    async with lock as lease:
        assert list(await lock.info()) == ["a", "b", "c"]
        async with world.locks.multi_lock("c", "b", "a") as inner:
            assert (inner.depth, inner.fence) == (2, lease.fence)
            assert [info.depth for info in (await lock.info()).values()] == [2, 2, 2]
        assert {info.depth for info in (await lock.info()).values()} == {1}
        await lease.renew(ttl=60.0)
        assert lease.remaining() > 50
        with pytest.raises(ConfigurationError, match="cannot be detached"):
            await lease.detach()
        await lease.release()
        assert not await lock.is_locked()


# Waiting.


@pytest.mark.parametrize("options", [{}, {"renew": False}, {"max_hold": 40.0}])
async def test_it_holds_the_first_while_it_waits_for_the_next(
    world: World, crew: Crew, options: dict[str, Any]
) -> None:
    """For longer than the ttl and `max_hold`, which begin at its end; and goes on at once. Kept by Stepwise._step."""
    async with world.others.lock("b") as plain:
        holder = Holder(crew, world.locks.multi_lock("a", "b", "c", **options))
        await settle(world.node("a"))
        assert world.held() == "ab"
        owner = world.holder("a")
        assert owner != world.holder("b")
        await world.clock.advance(5 * TTL)
        assert world.holder("a") == owner
        assert await world.others.lock("a").try_acquire() is None
        assert not holder.entered.done()
        fence = plain.fence
    await settle(world.node("a"))
    assert holder.entered.result().fence > fence
    assert world.held() == "abc"
    assert holder.entered.result().remaining() == pytest.approx(DEADLINE)
    await holder.end()


async def test_a_timeout_gives_back_what_it_has(world: World, crew: Crew) -> None:
    """Its limit is for the whole. Kept by Stepwise.begun."""
    async with world.others.lock("b", metadata="invoice run"):
        waiting = crew.start(world.locks.multi_lock("a", "b", "c").acquire(timeout=7.0))
        await settle(world.node("a"))
        assert world.held() == "ab"
        await world.clock.advance(7.0)
        with pytest.raises(AcquireTimeout, match=r"'a \+ b \+ c' was not .* 'b' is held by .* invoice run"):
            await waiting
        await settle(world.node("a"))
        assert world.held() == "b"
        assert not [ran for ran in world.backend.ran if ran.endswith(" c")]  # no server is asked in vain
        world.backend.ran.clear()
        await world.clock.advance(2 * TTL)
        assert world.backend.ran == []  # Stepwise.end: `_let_go`


@pytest.mark.parametrize("held", "abc")
async def test_one_attempt(world: World, held: str) -> None:
    """Kept by Stepwise.take: `spent`."""
    async with world.others.lock(held):
        attempt = world.locks.multi_lock("a", "b", "c").try_acquire()
        async with attempt as lease:
            assert lease is None
        assert attempt.holder is not None
        assert attempt.holder.name == held
        await settle(world.node("a"))
        assert world.held() == held
    async with world.locks.multi_lock("a", "b", "c").try_acquire() as lease:
        assert lease is not None


@pytest.mark.parametrize("turns", range(0, 60, 3))
async def test_a_cancelled_wait_gives_back_what_it_has(world: World, crew: Crew, turns: int) -> None:
    async with world.others.lock("c"):
        waiting = crew.start(world.locks.multi_lock("a", "b", "c").acquire())
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        await settle(world.node("a"))
        assert waiting.cancelled()
        assert world.held() == "c"


async def test_it_stands_at_the_end_of_each_queue(world: World, crew: Crew) -> None:
    """However long it waited in another place: each server has a clock of its own. Kept by Gathering._begin_group."""
    first, second = await world.others.lock("a").acquire(), await world.others.lock("b").acquire()
    holder = Holder(crew, world.locks.multi_lock("a", "b"))
    await world.clock.advance(1.0)
    before = Holder(crew, world.others.fair_lock("b"))
    await world.clock.advance(1.0)
    await first.release()
    await settle(world.node("a"))
    after = Holder(crew, world.others.fair_lock("b"))
    await world.clock.advance(15.0)  # for longer than it would keep what it gathers
    for one, two in zip((second, before, holder, after), (before, holder, after, None), strict=True):
        await (one.release() if one is second else one.end())  # type: ignore[union-attr]
        await settle(world.node("a"))
        assert two is None or two.entered.done()


async def test_the_first_is_lost_while_it_waits_for_the_next(world: World, crew: Crew) -> None:
    """It gives back what it has at once, and asks for all of it anew. Kept by LocalQueue.lost_part."""
    async with world.others.lock("c") as last:
        holder = Holder(crew, world.locks.multi_lock("a", "b", "c"))
        await settle(world.node("a"))
        before = world.holder("b")
        assert world.held() == "abc"
        assert await world.others.lock("a").force_release()
        await settle(world.node("a"))
        assert world.held() == "abc"  # it begins with the first again
        assert before not in (world.holder("a"), world.holder("b"))
        world.node("b").steal("b")
        await world.clock.advance(TTL / 3)
        assert world.holder("b").startswith("thief")
        assert not holder.entered.done()
        await last.release()
        world.node("b").give_back("b")
        await settle(world.node("a"))
    assert holder.entered.result().fence == world.fence("a") == world.fence("b") == world.fence("c")
    await holder.end()


async def test_many_that_lose_the_first(world: World, crew: Crew, caplog: pytest.LogCaptureFixture) -> None:
    """Are logged together. Kept by Stepwise.lost: `repeats`."""
    names = [f"a{number}" for number in range(4)]
    async with world.others.lock("c"):
        for name in names:
            Holder(crew, world.locks.multi_lock(name, "c"))
        await settle(world.node("a"))
        for name in names:
            assert await world.others.lock(name).force_release()
        await settle(world.node("a"))
        begin = "lost 'a0' while waiting for the rest of lock 'a0 + c', asking for all of it again: DELETED"
        assert [record.getMessage()[: len(begin)] for record in caplog.records] == [begin]
        await world.clock.advance(PERIOD)
        assert caplog.records[-1].getMessage() == (
            "lost parts of 3 more locks while waiting for the rest: 'a1 + c', 'a2 + c', 'a3 + c'"
        )
        assert len(caplog.records) == 2
        await crew.dismiss()
        await settle(world.node("a"))


async def test_one_attempt_that_loses_the_first(world: World, crew: Crew) -> None:
    """Kept by LocalQueue.lost_part: `entry.waiter`."""
    last = world.node("c")
    with last.outage(silent=True):
        trying = crew.start(tried(world.locks.multi_lock("a", "b", "c")))
        await settle(world.node("a"))
        assert await world.others.lock("a").force_release()
        await settle(world.node("a"))
        assert world.held() == ""
        assert not await trying
    await settle(world.node("a"))


async def tried(lock: MultiLock) -> bool:
    async with lock.try_acquire() as lease:
        return lease is not None


@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("name", "abc")
@pytest.mark.parametrize("request_number", range(3))
async def test_a_request_is_lost(
    world: World, crew: Crew, lost: Literal["reply", "request"], name: str, request_number: int
) -> None:
    """The acquire, the renewal that raises the fence, or the release."""
    holder = Holder(crew, world.locks.multi_lock("a", "b", "c"))
    count = 0

    def fail(call: Call[Any]) -> None:
        nonlocal count
        if world.backend.slot(call.keys[0]) == ord(name):
            count += 1
            if count == request_number + 1:
                world.backend.node(name).fail_next(lost)  # type: ignore[attr-defined]

    world.backend.before = fail
    await settle(world.node("a"))
    await world.clock.advance(1.0)
    lease = holder.entered.result()
    assert {world.fence(each) for each in "abc"} == {lease.fence}
    owner = world.holder(name)
    await holder.end()
    await world.clock.advance(2.0)
    assert world.held() == ""
    assert count >= request_number + 1
    if request_number == 2:  # its copy leaves a tombstone: JointCall.become
        assert [key.partition(":dead:")[2] for key in tombstones(world.node(name))] == [owner]


async def test_an_outage_of_a_later_place(world: World, crew: Crew) -> None:
    """A first attempt ends with it; what it had is given back, and no request to the place that never saw it is left.
    Kept by Stepwise._step: `replies`, and Stepwise.begun: `withdrawn`.
    """
    with world.node("b").outage(silent=True):
        waiting = crew.start(world.locks.multi_lock("a", "b").acquire())
        await settle(world.node("a"))
        assert world.held() == "a"
        await world.clock.advance(5.0)
        with pytest.raises(BackendError, match="got no answer within 5 s"):
            await waiting
        await settle(world.node("a"))
        assert world.held() == ""
        assert [ran for ran in world.backend.ran if ran.endswith(" b")] == ["acquire b"]


async def test_tasks_of_one_process_share_its_place(world: World, crew: Crew) -> None:
    lock = world.locks.multi_lock("a", "b")
    async with world.others.lock("b"):
        holders = [Holder(crew, lock) for _ in range(3)]
        await settle(world.node("a"))
        assert world.backend.ran.count("acquire a") == 1
    for holder in holders:
        await settle(world.node("a"))
        assert holder.entered.done()
        await holder.end()


# Fences.


@pytest.mark.parametrize("ahead", "abc")
async def test_fences_rise_for_whoever_takes_one_name(world: World, ahead: str) -> None:
    """Whichever server's clock is an hour ahead. Kept by Stepwise._join and renew.lua."""
    step_wall(world.node(ahead), 3600.0)
    for name in "abc":
        async with world.others.lock(name) as before:
            pass
        async with world.locks.multi_lock("a", "b", "c") as lease:
            assert lease.fence > before.fence
        async with (
            LockManager(Scattered([MemoryBackend(node) for node in world.nodes])) as stranger,
            stranger.lock(name) as after,
        ):
            assert after.fence > lease.fence


@pytest.mark.parametrize("name", "ab")
async def test_a_place_that_did_not_raise_its_fence_yet(world: World, crew: Crew, name: str) -> None:
    """No block begins before all fences are one. Kept by Stepwise.judged; and Stepwise._join, for as long as that
    takes.
    """
    async with world.others.lock("b"):  # whoever was told to wait waits on in an outage
        holder = Holder(crew, world.locks.multi_lock("a", "b"))
        await settle(world.node("a"))
    owner = world.holder("a")
    world.backend.refuse = f"renew {name}"
    await world.clock.advance(TTL / 2)
    assert world.held() == "ab"
    assert (world.fence("a") < world.fence("b")) == (name == "a")
    assert not holder.entered.done()
    world.backend.refuse = ""
    await world.clock.advance(1.0)
    assert holder.entered.result().fence == world.fence("a") == world.fence("b")
    assert world.holder("a") == world.holder("b") == owner
    await holder.end()


async def test_one_attempt_whose_fences_are_not_raised(world: World) -> None:
    """Kept by Stepwise.unknown: `queues`."""
    world.backend.refuse = "renew a"
    with pytest.raises(BackendError, match="TRYAGAIN"):
        await world.locks.multi_lock("a", "b").try_acquire()
    await settle(world.node("a"))
    assert world.held() == ""


async def test_the_first_is_lost_while_fences_are_raised(world: World) -> None:
    """Kept by Stepwise.judged: Missing."""

    def steal(call: Call[Any]) -> None:
        if call.script.name == "renew":
            world.backend.before = lambda call: None
            world.node("a").steal("a")
            world.clock.call_at(world.clock.now() + 1.0, lambda: world.node("a").give_back("a"))

    world.backend.before = steal
    acquiring = asyncio.ensure_future(world.locks.multi_lock("a", "b").acquire())
    await settle(world.node("a"))
    assert (world.held(), acquiring.done()) == ("a", False)
    await world.clock.advance(1.0)
    lease = await acquiring
    assert lease.fence == world.fence("a") == world.fence("b")
    await lease.release()


# Losing it.


@pytest.mark.parametrize("stolen", "abc")
async def test_it_is_lost_with_one_part(world: World, stolen: str) -> None:
    """Once, and the others are freed."""
    with expect_loss(LossReason.TAKEN_OVER):
        async with world.locks.multi_lock("a", "b", "c") as lease:
            world.node(stolen).steal(stolen)
            await world.clock.advance(TTL / 3)
            assert lease.reason is LossReason.TAKEN_OVER
            await asyncio.sleep(TTL)
    await settle(world.node("a"))
    assert world.held() == stolen
    world.node(stolen).give_back(stolen)


@pytest.mark.parametrize("refused", ["", "renew a"])
async def test_a_loss_does_not_wait_for_another_place(world: World, refused: str) -> None:
    """Kept by JointRenewal.judged: Missing."""
    with expect_loss(LossReason.TAKEN_OVER):
        async with world.locks.multi_lock("a", "b", "c"):
            world.node("b").steal("b")
            world.backend.refuse = refused
            with nullcontext() if refused else world.node("a").outage(silent=True):
                await world.clock.advance(TTL / 3)
                await asyncio.sleep(TTL)
    world.backend.refuse = ""
    world.node("b").give_back("b")
    await world.clock.advance(1.0)


@pytest.mark.parametrize("nests", [False, True])
async def test_an_answer_that_it_is_lost_does_not_wait_for_another_place(world: World, crew: Crew, nests: bool) -> None:
    """Kept by join.renewed and join.nested."""
    lock = world.locks.multi_lock("a", "b", "c")
    lease = await lock.acquire()
    world.node("b").steal("b")
    with world.node("a").outage(silent=True):
        asking = crew.start(lock.acquire(owner=lease.owner) if nests else lease.renew())
        await settle(world.node("a"))
        assert asking.done()
        with pytest.raises(LockLost):
            await asking
    with pytest.raises(LockLost):
        await lease.release()
    world.node("b").give_back("b")
    await world.clock.advance(1.0)


def test_places_have_one_order_for_all() -> None:
    """Kept by multi_calls: `sorted`."""
    places = {"a": 7, "b": 3, "c": 7, "d": 5}
    calls = multi_calls(Keys("aiolock"), tuple(places), lambda key: places[key.split("{")[1][0]])
    assert [group.names for group in calls.groups] == [("b",), ("d",), ("a", "c")]
    assert (calls.name, calls.names) == ("a + b + c + d", ("a", "b", "c", "d"))


async def test_force_release_of_a_part_ends_it(world: World) -> None:
    with expect_loss(LossReason.REVOKED):
        async with world.locks.multi_lock("a", "b", "c"):
            assert await world.others.lock("b").force_release()
            await asyncio.sleep(TTL)


async def test_a_silent_place_ends_it_at_the_deadline(world: World) -> None:
    """And what remains is the least. Kept by JointRenewal.judged: `left`."""
    with expect_loss(LossReason.UNREACHABLE):
        async with world.locks.multi_lock("a", "b", "c") as lease:
            with world.node("b").outage(silent=True):
                await world.clock.advance(DEADLINE - 1.0)
                assert lease.remaining() == pytest.approx(1.0)
                await world.clock.advance(1.0)
                await asyncio.sleep(TTL)
    await settle(world.node("a"))


async def test_renewals_keep_all_parts(world: World) -> None:
    """With those of other holds in the same place. Kept by Renewals.write: JointPart."""
    async with world.locks.multi_lock("a", "b"), world.locks.multi_lock("c", "d"), world.locks.multi_lock("b2", "b3"):
        world.backend.ran.clear()
        await world.clock.advance(TTL / 3)
        assert sorted(world.backend.ran) == ["renew a", "renew b", "renew c", "renew d"]
        await world.clock.advance(10 * TTL)
        assert world.held("abcd") == "abcd"
    await settle(world.node("a"))


async def test_a_place_whose_release_fails_gets_another(world: World) -> None:
    """The others' are not judged twice. Kept by Release: `resent`."""
    lease = await world.locks.multi_lock("a", "b").acquire()
    world.backend.refuse = "release b"
    releasing = asyncio.ensure_future(lease.release())
    await settle(world.node("a"))
    assert world.held() == "b"
    world.backend.refuse = ""
    await world.clock.advance(1.0)
    await releasing
    assert world.held() == ""
