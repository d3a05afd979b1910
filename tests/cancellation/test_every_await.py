"""Invariant 3: at every await of acquire, wait, nest, release, close and entry, one cancel or two leave nothing behind.

Each scenario runs once for each place and moment of a first cancel, and for each of a second one, one or two
suspensions later; `make test` runs every other one of these, `make test-thorough` all. No time passes afterwards:
whatever must be undone was written by then.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import islice, product
from typing import Any, TypeVar

import anyio
import pytest

from aiolock import AcquireTimeout, AiolockError, BackendError, LockLost, LockManager, LossReason
from aiolock.scripts import lock
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from tests.support import locks
from tests.support.generated import TIMES
from tests.unit.world import TTL, Crew, Holder, SlowBackend, lock_keys, runtime_of, settle

from .stepper import Stepper, When

Cancels = dict[int, When]
Scenario = Callable[["World"], Coroutine[None, None, None]]
FIRST: tuple[When, ...] = (-1, 0, 1, 2, 4, "answer")
"""Before it is written, before and after it is executed, before and together with its answer."""
SECOND: tuple[When, ...] = (-1, 2, "answer")
EXPECTED = (asyncio.CancelledError, AiolockError)
R = TypeVar("R")


class CountingBackend(SlowBackend):
    """Counts how often a release of its own ended each owner.

    Messages are slow here: a grant may be declined that its undo has ended before. That changes nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ended: Counter[str] = Counter()
        self._counted: list[Call[Any]] = []

    def post(self, call: Call[Any]) -> None:
        ends = call.script is lock.RELEASE and not (len(call.args) > 4 and call.args[4])
        if ends and "declined" not in call.args and not any(call is known for known in self._counted):
            self._counted.append(call)
            self.ended[str(call.args[0])] += 1
        super().post(call)


class World:
    """Two processes on one slow server, and tasks.

    Attributes:
        lasting: keys that stay.
    """

    lasting: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.backend = CountingBackend()
        self.locks = LockManager(self.backend)
        self.peer_backend = MemoryBackend(self.backend)
        self.peer = LockManager(self.peer_backend)
        self.crew = Crew()
        self.after: list[Callable[[], Coroutine[None, None, None]]] = []
        self.inside = 0
        self.holder: Holder | None = None
        self.ticket = ""

    async def hold(self) -> None:
        """Have another task of this process hold the lock; it leaves at the end at the latest."""
        self.holder = Holder(self.crew, self.lock(self.locks))
        await self.holder.entered
        self.after.append(self.holder.end)

    def lock(self, manager: LockManager) -> Any:
        """What the scenario acquires."""
        return manager.lock("a")

    def soon(self, turns: int, act: Callable[[], object]) -> None:
        """Have `act` happen in this many turns, whatever becomes of the scenario."""

        async def wait() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            act()

        self.crew.start(wait())

    def assert_alone(self) -> None:
        """Check that no one else is inside; the world's own holders count themselves."""
        assert self.inside == 0


def plans(suspensions: int, thorough: bool) -> Iterator[Cancels]:
    """One cancel at each suspension, then two: of the second ones every other, in turn, unless `thorough`."""
    for first in range(1, suspensions + 1):
        for at, when in enumerate(FIRST):
            yield {first: when}
            for number, (second, again) in enumerate(product((1, 2), SECOND)):
                if thorough or (first + at + number) % 2 == 0:
                    yield {first: when, first + second: again}


async def nothing(world: World) -> None:
    """No preparation."""


async def run_every_way(
    scenario: Scenario,
    prepare: Scenario = nothing,
    entered: bool = True,
    make: Callable[[], World] = World,
    stride: int = 1,
) -> int:
    """Run `scenario` uncancelled, then cancelled in every way; return the number of ways.

    Args:
        scenario: what is cancelled.
        prepare: what comes before, and is not cancelled.
        entered: whether the manager is entered before.
        make: makes the world.
        stride: run only every n-th of all ways, spread over all suspensions.
    """
    suspensions = await run_once(scenario, prepare, {}, entered, make)
    assert suspensions, "nothing to cancel"
    ways = 0
    for cancels in islice(plans(suspensions, TIMES > 1 or stride > 1), None, None, stride):
        await run_once(scenario, prepare, cancels, entered, make)
        ways += 1
    return ways


async def run_once(
    scenario: Scenario, prepare: Scenario, cancels: Cancels, entered: bool, make: Callable[[], World] = World
) -> int:
    before = asyncio.all_tasks()
    world = make()
    async with world.peer:
        if entered:
            await world.locks.__aenter__()
        await prepare(world)
        stepper = Stepper(scenario(world), cancels)

        async def act() -> None:
            await stepper

        task = asyncio.create_task(act(), name="the one that is cancelled")
        await settle(world.backend)
        for after in world.after:
            await after()
        await settle(world.backend)
        assert task.done(), f"stuck with {cancels}"
        error = None if task.cancelled() else task.exception()
        assert error is None or isinstance(error, EXPECTED), f"{cancels}: {error!r}"
        assert not isinstance(error, BackendError) or error.transient, f"the server refuses: {error!r}"
        assert cancels or not task.cancelled()
        await assert_nothing_left(world, cancels)
        await world.crew.dismiss()
        if runtime_of(world.locks).binding.bound:
            await world.locks.aclose()
    for _ in range(5):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    assert not left, f"a task is left with {cancels}: {left}"
    return stepper.suspensions


async def assert_nothing_left(world: World, cancels: Cancels) -> None:
    """Check that no key, no blocked task and no memory is left, although no time has passed."""
    assert lock_keys(world.backend) == [*world.lasting], f"a key is left with {cancels}"
    twice = [owner for owner, times in world.backend.ended.items() if times > 1]
    assert not twice, f"ended twice with {cancels}: {twice}"
    async with world.lock(world.peer).acquire(timeout=0) as lease:
        assert lease.depth == 1
    runtime = runtime_of(world.locks)
    left = (runtime.gates, runtime.holds, runtime.queue_entries)
    assert left == ({}, {}, {}), f"memory is left with {cancels}: {left}"
    if runtime.binding.bound:
        again = asyncio.create_task(enter_and_leave(world))
        await settle(world.backend)
        assert again.done(), f"blocked with {cancels}"
        await again
    else:
        assert world.backend._wakes == {}, f"a subscription is left with {cancels}"
        assert not runtime.binding._was_bound or runtime.scheduler._timer is None


async def enter_and_leave(world: World) -> None:
    async with world.lock(world.locks).acquire(timeout=0):
        pass


async def body(world: World) -> None:
    world.assert_alone()
    world.inside += 1
    try:
        await asyncio.sleep(0)
    finally:
        world.inside -= 1


@asynccontextmanager
async def held_by_peer(world: World, turns: int) -> AsyncIterator[None]:
    """Have another process hold the lock, and release it in this many turns."""
    lease = await world.lock(world.peer).acquire()
    world.inside += 1

    def release() -> None:
        world.inside -= 1
        lease.release()

    world.soon(turns, release)
    yield


def test_every_pair_of_moments_has_its_turn() -> None:
    """Whether a first cancel comes at an odd or an even suspension decides which second ones follow."""
    few, all_of_them = ({tuple(way.items()) for way in plans(8, thorough)} for thorough in (False, True))
    assert len(few) < 0.6 * len(all_of_them)
    pairs = [
        {(a[1], b[0] - a[0], b[1]) for a, b in (way for way in ways if len(way) == 2)} for ways in (few, all_of_them)
    ]
    assert pairs[0] == pairs[1]
    assert {way for way in few if len(way) == 1} == {way for way in all_of_them if len(way) == 1}


async def test_uncontended_acquire() -> None:
    async def scenario(world: World) -> None:
        lease = await world.locks.lock("a").acquire()
        lease.release()

    assert await run_every_way(scenario) > 20


async def test_awaiting_the_release() -> None:
    async def scenario(world: World) -> None:
        lease = await world.locks.lock("a").acquire()
        try:
            await body(world)
        finally:
            await lease.release()

    assert await run_every_way(scenario) > 20


async def test_a_guarded_block() -> None:
    """`Guard.exit`: the release is written before any await."""

    async def scenario(world: World) -> None:
        async with world.locks.lock("a"):
            await body(world)

    assert await run_every_way(scenario) > 20


async def test_a_guarded_acquisition() -> None:
    async def scenario(world: World) -> None:
        async with world.locks.lock("a").acquire(timeout=10):
            await body(world)

    assert await run_every_way(scenario) > 20


async def test_try_acquire() -> None:
    async def scenario(world: World) -> None:
        async with world.locks.lock("a").try_acquire() as lease:
            assert lease is not None
            await body(world)

    assert await run_every_way(scenario) > 20


@pytest.mark.parametrize("turns", [0, 2, 5, 8])
async def test_try_acquire_that_is_refused(turns: int) -> None:
    async def scenario(world: World) -> None:
        async with held_by_peer(world, turns), world.locks.lock("a").try_acquire() as lease:
            if lease is not None:
                await body(world)

    assert await run_every_way(scenario) > 20


@pytest.mark.parametrize("turns", [0, 2, 4, 5, 8, 12])
async def test_a_wait_that_a_release_elsewhere_ends(turns: int) -> None:
    async def scenario(world: World) -> None:
        async with held_by_peer(world, turns), world.locks.lock("a"):
            await body(world)

    assert await run_every_way(scenario) > 20


@pytest.mark.parametrize("turns", [0, 2, 4, 5, 8])
async def test_a_name_that_stays_taken(turns: int) -> None:
    """Only if a task has had it, and until it is over. Kept by Hold.kept_until: `entered`."""

    async def scenario(world: World) -> None:
        async def wait() -> None:
            world.backend.clock.jump(5.1)

        async with held_by_peer(world, turns), world.locks.lock("a", hold_at_least=5.0):
            world.after.append(wait)
            await body(world)

    assert await run_every_way(scenario) > 20


@pytest.mark.parametrize("turns", [0, 2, 4, 5, 8])
async def test_one_that_passes_another(turns: int) -> None:
    """Who was passed gets in all the same, whatever becomes of the other. Kept by pass_others, Gate.leave."""

    async def scenario(world: World) -> None:
        async def passed() -> None:
            async with world.locks.lock("a"):
                pass

        async with held_by_peer(world, turns):
            other = asyncio.create_task(passed())

            async def wait() -> None:
                await asyncio.wait_for(other, 60.0)

            world.after.append(wait)
            await asyncio.sleep(0)
            async with world.locks.lock("a", priority=1):
                await body(world)

    assert await run_every_way(scenario) > 20


async def test_a_wait_that_expiry_ends() -> None:
    async def prepare(world: World) -> None:
        lease = await world.peer.lock("a", ttl=2.0, renew=False).acquire()

        async def give_up() -> None:
            with suppress(LockLost):
                await lease.release()

        world.after.append(give_up)
        world.soon(30, lambda: world.backend.clock.jump(2.1))

    async def scenario(world: World) -> None:
        async with world.locks.lock("a"):
            await body(world)

    assert await run_every_way(scenario, prepare) > 20


@pytest.mark.parametrize("timeout", [0, 1.0])
async def test_a_wait_that_times_out(timeout: float) -> None:
    async def prepare(world: World) -> None:
        lease = await world.peer.lock("a").acquire()
        world.soon(25, lambda: world.backend.clock.jump(timeout))

        async def release() -> None:
            await lease.release()

        world.after.append(release)

    async def scenario(world: World) -> None:
        with pytest.raises(AcquireTimeout):
            await world.locks.lock("a").acquire(timeout=timeout)

    assert await run_every_way(scenario, prepare) > 20


async def test_a_timeout_while_the_answer_is_on_its_way() -> None:
    async def scenario(world: World) -> None:
        world.soon(3, lambda: world.backend.clock.jump(1))
        with pytest.raises(AcquireTimeout):
            await world.locks.lock("a").acquire(timeout=0.5)

    assert await run_every_way(scenario) > 20


async def test_nesting() -> None:
    """C3 (a): the outer block continues, whatever becomes of the inner one."""

    async def scenario(world: World) -> None:
        lock = world.locks.lock("a")
        async with lock as outer:
            try:
                async with lock:
                    await body(world)
            finally:
                assert (outer.depth, outer.lost) == (1, False)
                assert locks.held(world.backend, "a")

    assert await run_every_way(scenario) > 20


async def test_a_nested_acquire_alone() -> None:
    async def scenario(world: World) -> None:
        lock = world.locks.lock("a")
        outer = await lock.acquire()
        try:
            inner = await lock.acquire()
            await inner.release()
        finally:
            assert outer.depth == 1
            assert not outer.lost
            outer.release()

    assert await run_every_way(scenario) > 20


async def test_a_block_with_a_lease_acquired_before() -> None:
    """No cancel strikes between the two. Kept by Lease.__aenter__, which awaits nothing."""

    async def scenario(world: World) -> None:
        lease = await world.locks.lock("a").acquire()
        async with lease:
            await body(world)

    assert await run_every_way(scenario) > 20


async def test_sharing_with_a_child_that_is_cancelled() -> None:
    async def scenario(world: World) -> None:
        assert world.holder is not None
        lease = world.holder.entered.result()
        try:
            async with world.locks.lock("a").acquire(owner=lease.owner):
                await asyncio.sleep(0)
        finally:
            assert (lease.depth, lease.lost) == (1, False)

    assert await run_every_way(scenario, World.hold) > 20


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8])
async def test_a_handoff_to_a_task_that_is_cancelled(turns: int) -> None:
    """H2 (b): the lock goes to the next in the queue, or back to the server."""

    async def prepare(world: World) -> None:
        await world.hold()
        assert world.holder is not None
        world.soon(turns, world.holder.leave.set)

    async def scenario(world: World) -> None:
        async with world.locks.lock("a"):
            await body(world)

    assert await run_every_way(scenario, prepare) > 20


@pytest.mark.parametrize("turns", [0, 2, 5])
async def test_a_handoff_with_another_one_behind(turns: int) -> None:
    async def prepare(world: World) -> None:
        await world.hold()
        assert world.holder is not None
        world.soon(turns, world.holder.leave.set)
        behind = world.crew.start(queue_behind(world))

        async def end() -> None:
            assert behind.done(), "the one behind is stuck"
            await behind

        world.after.append(end)

    async def queue_behind(world: World) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        async with world.locks.lock("a"):
            await body(world)

    async def scenario(world: World) -> None:
        async with world.locks.lock("a"):
            await body(world)

    assert await run_every_way(scenario, prepare) > 20


async def test_a_holder_that_hands_on_is_cancelled() -> None:
    async def scenario(world: World) -> None:
        async with world.locks.lock("a"):
            waiter = Holder(world.crew, world.locks.lock("a"))
            world.after.append(waiter.end)
            await body(world)

    assert await run_every_way(scenario) > 20


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_acquire_over_a_connection_that_dies(lost: str) -> None:
    """Invariant 4 with 3: cancelled while it is unknown whether the server saw the request."""

    async def scenario(world: World) -> None:
        world.soon(3, lambda: world.backend.die(lost))  # type: ignore[arg-type]
        async with world.locks.lock("a"):
            await body(world)

    assert await run_every_way(scenario) > 20


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("turns", [2, 4])
async def test_a_handoff_over_a_connection_that_dies(lost: str, turns: int) -> None:
    async def prepare(world: World) -> None:
        await world.hold()
        assert world.holder is not None
        world.soon(0, world.holder.leave.set)
        world.soon(turns, lambda: world.backend.die(lost))  # type: ignore[arg-type]

    async def scenario(world: World) -> None:
        async with world.locks.lock("a"):
            await body(world)

    assert await run_every_way(scenario, prepare) > 20


async def test_a_loss_while_it_is_cancelled() -> None:
    async def scenario(world: World) -> None:
        async with world.locks.lock("a") as lease:
            world.soon(2, lambda: lease._hold.lose(LossReason.MAX_HOLD))
            for _ in range(4):
                await asyncio.sleep(0)

    assert await run_every_way(scenario) > 20


async def test_shielded_clean_up() -> None:
    async def scenario(world: World) -> None:
        async with world.locks.lock("a") as lease, lease.shielded(transaction()):
            await body(world)

    @asynccontextmanager
    async def transaction() -> AsyncIterator[None]:
        await asyncio.sleep(0)
        try:
            yield
        finally:
            await asyncio.sleep(0)

    assert await run_every_way(scenario) > 20


async def test_entering_the_manager() -> None:
    async def scenario(world: World) -> None:
        await world.locks.__aenter__()
        await world.locks.aclose()

    assert await run_every_way(scenario, entered=False) > 20


async def test_closing_the_manager() -> None:
    async def scenario(world: World) -> None:
        await world.locks.aclose()

    assert await run_every_way(scenario) > 20


async def test_closing_with_plain_leases() -> None:
    async def prepare(world: World) -> None:
        for name in "ab":
            await world.locks.lock(name).acquire()

    async def scenario(world: World) -> None:
        await world.locks.aclose()

    assert await run_every_way(scenario, prepare) > 20


async def test_closing_with_bodies_and_waiters() -> None:
    """H4: a cancelled close stops waiting; a body that had not ended by then keeps its key until its ttl."""

    async def prepare(world: World) -> None:
        holders = [Holder(world.crew, world.locks.lock("a")) for _ in range(2)]
        await holders[0].entered

        async def end() -> None:
            assert all(holder.task.done() for holder in holders)
            if runtime_of(world.locks).binding.bound:  # never closed, because the cancel came first
                return
            if lock_keys(world.backend):
                await world.backend.clock.advance(TTL)

        world.after.append(end)

    async def scenario(world: World) -> None:
        await world.locks.aclose()

    assert await run_every_way(scenario, prepare) > 20


@pytest.mark.parametrize("turns", range(0, 45, 3))
async def test_cancelled_by_a_scope(turns: int) -> None:
    """anyio's cancellation comes again at every await: not twice, always."""

    async def scenario(world: World) -> None:
        with anyio.CancelScope() as scope:
            world.soon(turns, scope.cancel)
            lock = world.locks.lock("a")
            async with lock, lock:
                await body(world)
            await world.locks.aclose()

    assert await run_once(scenario, nothing, {}, True)
