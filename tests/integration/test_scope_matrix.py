"""Loss inside everything that also cancels: our cancellation becomes LockLost, all others pass untouched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

import anyio
import pytest

from aiolock import Lease, LockLost, LockManager, LossReason
from aiolock.testing import MemoryBackend
from tests.unit.world import DEADLINE, TTL, expect_loss, lock_keys, settle

pytestmark = pytest.mark.any_loop

LOST = LossReason.TAKEN_OVER


def lose(lease: Lease) -> None:
    lease._hold.lose(LOST)


def soon(*acts: Callable[[], object]) -> None:
    """In the loop's next turn, all in the same one."""
    asyncio.get_running_loop().call_soon(lambda: [act() for act in acts])


async def forever() -> None:
    await asyncio.Event().wait()


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def usable() -> None:
    """Check that the task continues as if nothing had happened."""
    assert cancelling() == 0
    for _ in range(3):
        await asyncio.sleep(0)


async def test_plain(locks: LockManager) -> None:
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease))
            await forever()
    await usable()


async def test_really_stolen(locks: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LOST):
        async with locks.lock("a"):
            backend.steal("a")
            await backend.clock.advance(TTL)
    await usable()


async def guarded(locks: LockManager) -> None:
    async with locks.lock("a") as lease:
        soon(lambda: lose(lease))
        await forever()


async def test_in_a_child_of_a_task_group(locks: LockManager) -> None:
    cancelled: list[str] = []

    async def sibling() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            cancelled.append("sibling")
            raise

    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sibling())
            group.create_task(guarded(locks))

    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.create_task(parent())
    assert [type(error) for error in caught.value.exceptions] == [LockLost]
    assert cancelled == ["sibling"]


async def test_in_a_child_of_an_anyio_group(locks: LockManager) -> None:
    async def parent() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(forever)
            group.start_soon(guarded, locks)

    with pytest.raises(ExceptionGroup) as caught:
        await parent()
    assert [type(error) for error in caught.value.exceptions] == [LockLost]
    await usable()


async def kid(seen: list[str]) -> None:
    try:
        await forever()
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise


async def test_a_task_group_in_the_body(locks: LockManager) -> None:
    seen: list[str] = []
    with expect_loss(LOST):
        async with locks.lock("a") as lease, asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(kid(seen))
            await asyncio.sleep(0)
            soon(lambda: lose(lease))
    assert seen == ["cancelled"] * 2
    await usable()


async def test_an_anyio_group_in_the_body(locks: LockManager) -> None:
    seen: list[str] = []
    with expect_loss(LOST):
        async with locks.lock("a") as lease, anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(kid, seen)
            await asyncio.sleep(0)
            soon(lambda: lose(lease))
    assert seen == ["cancelled"] * 2
    await usable()


async def test_gather_in_the_body(locks: LockManager) -> None:
    seen: list[str] = []
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            asyncio.get_running_loop().call_later(0, lambda: soon(lambda: lose(lease)))
            await asyncio.gather(kid(seen), kid(seen))
    await asyncio.sleep(0)
    assert seen == ["cancelled"] * 2
    await usable()


async def test_gathered(locks: LockManager) -> None:
    results = await asyncio.gather(guarded(locks), asyncio.sleep(0, "fine"), return_exceptions=True)
    assert [type(result) for result in results] == [LockLost, str]
    await usable()


async def test_a_child_task_is_not_cancelled(locks: LockManager) -> None:
    """Documented: `create_task` in the body starts something of its own."""
    done = asyncio.Event()

    async def child() -> str:
        await done.wait()
        return "finished"

    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            task = asyncio.create_task(child())
            soon(lambda: lose(lease))
            await forever()
    done.set()
    assert await task == "finished"


async def test_a_timeout_outside_that_does_not_fire(locks: LockManager) -> None:
    with expect_loss(LOST):
        async with asyncio.timeout(60), locks.lock("a") as lease:
            soon(lambda: lose(lease))
            await forever()
    await usable()


async def test_a_timeout_outside_that_fires_first(locks: LockManager, backend: MemoryBackend) -> None:
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0), locks.lock("a"):
            await forever()
    assert not isinstance(caught.value, LockLost)
    assert lock_keys(backend) == []
    await usable()


async def test_a_timeout_around_the_body_that_fires(locks: LockManager, backend: MemoryBackend) -> None:
    async def work() -> None:
        async with asyncio.timeout(None) as timeout, locks.lock("a"):
            timeout.reschedule(asyncio.get_running_loop().time())
            await forever()

    with pytest.raises(TimeoutError):
        await work()
    assert lock_keys(backend) == []
    await usable()


async def test_a_timeout_inside_then_a_loss(locks: LockManager) -> None:
    timed_out = False
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            try:
                async with asyncio.timeout(0):
                    await forever()
            except TimeoutError:
                timed_out = True
            assert cancelling() == 0
            soon(lambda: lose(lease))
            await forever()
    assert timed_out
    await usable()


async def test_a_timeout_inside_that_does_not_fire(locks: LockManager) -> None:
    with expect_loss(LOST):
        async with locks.lock("a") as lease, asyncio.timeout(60):
            soon(lambda: lose(lease))
            await forever()
    await usable()


async def test_an_outer_timeout_in_the_same_tick(locks: LockManager) -> None:
    """Another scope cancels too, and wins."""

    async def work() -> None:
        async with asyncio.timeout(None) as timeout, locks.lock("a") as lease:
            soon(lambda: lose(lease), lambda: fire(timeout))
            await forever()

    with pytest.raises(TimeoutError):
        await work()
    await usable()


def fire(timeout: asyncio.Timeout) -> None:
    """Do what the timeout's own timer would do, now."""
    timeout._on_timeout()  # type: ignore[attr-defined]


async def test_an_inner_timeout_in_the_same_tick(locks: LockManager) -> None:
    with expect_loss(LOST):
        async with locks.lock("a") as lease, asyncio.timeout(None) as timeout:
            soon(lambda: lose(lease), lambda: fire(timeout))
            await forever()
    await usable()


async def test_an_anyio_scope_outside_in_the_same_tick(locks: LockManager) -> None:
    after = False
    with anyio.CancelScope() as scope:
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease), scope.cancel)
            await forever()
        after = True
    assert scope.cancelled_caught
    assert not after
    await usable()


@pytest.mark.parametrize("first", ["loss", "user"])
async def test_a_users_cancel_in_the_same_tick(locks: LockManager, first: str) -> None:
    """The user's cancellation is never turned into something else."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with locks.lock("a") as lease:
            acts = [lambda: lose(lease), lambda: task.cancel("user")]
            soon(*(acts if first == "loss" else reversed(acts)))
            await forever()

    task = asyncio.create_task(work())
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_users_cancel_alone(locks: LockManager, backend: MemoryBackend) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        async with locks.lock("a"):
            entered.set()
            await forever()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel("the reason")
    with pytest.raises(asyncio.CancelledError, match="the reason"):
        await task
    assert lock_keys(backend) == []


async def nested(locks: LockManager, *which: str) -> list[str]:
    """Two different locks, one in the other; lose these, in this order, in one tick."""
    seen: list[str] = []
    try:
        async with locks.lock("outer") as outer:
            try:
                async with locks.lock("inner") as inner:
                    leases = {"outer": outer, "inner": inner}
                    soon(*(lambda name=name: lose(leases[name]) for name in which))
                    await forever()
            except LockLost as error:
                seen.append(error.name)
                await asyncio.sleep(0)
                seen.append("went on")
    except LockLost as error:
        seen.append(error.name)
    await usable()
    return seen


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (["inner"], ["inner", "went on"]),
        (["outer"], ["outer"]),
        (["inner", "outer"], ["outer"]),
        (["outer", "inner"], ["outer"]),
    ],
)
async def test_nested(locks: LockManager, which: list[str], expected: list[str]) -> None:
    assert await nested(locks, *which) == expected


async def test_nested_one_after_the_other(locks: LockManager) -> None:
    seen: list[str] = []
    with expect_loss(LOST, "'outer'"):
        async with locks.lock("outer") as outer:
            with expect_loss(LOST, "'inner'"):
                async with locks.lock("inner") as inner:
                    soon(lambda: lose(inner))
                    await forever()
            seen.append("between")
            soon(lambda: lose(outer))
            await forever()
    assert seen == ["between"]
    await usable()


async def test_reentered_the_outermost_block_raises(locks: LockManager) -> None:
    seen: list[type[BaseException]] = []
    with expect_loss(LOST):
        async with locks.lock("a"):
            try:
                async with locks.lock("a") as inner:
                    soon(lambda: lose(inner))
                    await forever()
            except BaseException as error:
                seen.append(type(error))
                raise
    assert seen == [asyncio.CancelledError]
    await usable()


async def test_an_inner_block_that_ends_at_the_same_instant(locks: LockManager) -> None:
    """`Guard.exit`: `self._outermost`; the inner block raises nothing of its own, the outer one is cancelled."""
    log: list[str] = []
    with expect_loss(LOST):
        async with locks.lock("a"):
            async with locks.lock("a") as inner:
                lose(inner)
            log.append("after the inner block")
            await forever()
    assert log == ["after the inner block"]
    await usable()


async def test_the_body_swallows_once(locks: LockManager) -> None:
    """Level cancellation: the next await is cancelled at once."""
    went_on = False
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease))
            with suppress(asyncio.CancelledError):
                await forever()
            await forever()
            went_on = True
    assert not went_on
    await usable()


async def test_the_body_swallows_in_a_loop(locks: LockManager) -> None:
    swallowed = 0
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease))
            while swallowed < 50:
                try:
                    await forever()
                except asyncio.CancelledError:
                    swallowed += 1
    assert swallowed == 50
    await usable()


async def test_the_body_ends_at_the_same_instant(locks: LockManager) -> None:
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            await asyncio.sleep(0)
            lose(lease)
    await usable()


async def test_the_last_await_is_done_in_the_same_tick(locks: LockManager) -> None:
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            answer = asyncio.get_running_loop().create_future()
            soon(lambda: answer.set_result(1), lambda: lose(lease))
            await answer
    await usable()


async def test_a_loss_after_the_end_is_none(locks: LockManager) -> None:
    async with locks.lock("a") as lease:
        pass
    lose(lease)
    await usable()
    assert not lease.lost


async def test_a_loss_while_nesting(locks: LockManager) -> None:
    """The hold is lost while a second task's nested request is on its way: that task never enters."""
    lock = locks.lock("a")
    outer = await lock.acquire()
    entered = False

    async def enter() -> None:
        nonlocal entered
        async with lock.acquire(owner=outer.owner):
            entered = True
            await forever()

    task = asyncio.create_task(enter())
    await asyncio.sleep(0)
    assert (outer.depth, entered) == (2, False)
    soon(lambda: lose(outer))
    with pytest.raises(LockLost):
        await task
    assert not entered
    with pytest.raises(LockLost):
        await outer.release()


async def test_unshielded_clean_up_is_cut_off(locks: LockManager) -> None:
    log: list[str] = []
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease))
            try:
                await forever()
            finally:
                log.append("begun")
                await forever()
                log.append("finished")
    assert log == ["begun"]
    await usable()


async def test_shielded_clean_up_runs(locks: LockManager) -> None:
    log: list[str] = []
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease))
            try:
                await forever()
            finally:
                with anyio.CancelScope(shield=True):
                    for _ in range(10):
                        await asyncio.sleep(0)
                    log.append("finished")
    assert log == ["finished"]
    await usable()


async def test_asyncio_shield_lets_the_inner_one_finish(locks: LockManager) -> None:
    finish = asyncio.Event()
    log: list[str] = []

    async def critical() -> None:
        await finish.wait()
        log.append("critical done")

    task = asyncio.create_task(critical())
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease))
            await asyncio.shield(task)
    assert log == []
    finish.set()
    await task
    assert log == ["critical done"]


async def test_inside_an_anyio_shield(locks: LockManager) -> None:
    with expect_loss(LOST), anyio.CancelScope(shield=True):
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease))
            await forever()
    await usable()


async def test_the_body_turns_the_cancel_into_its_own_error(locks: LockManager) -> None:
    async def work() -> None:
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease))
            try:
                await forever()
            except asyncio.CancelledError as error:
                raise ValueError("mine") from error

    with pytest.raises(ValueError, match="mine") as caught:
        await work()
    assert any("lock 'a' was lost meanwhile" in note for note in caught.value.__notes__)
    await usable()


async def test_entered_and_left_in_different_tasks(locks: LockManager, backend: MemoryBackend) -> None:
    lock = locks.lock("a")
    leave = asyncio.Event()

    async def enter() -> None:
        await lock.__aenter__()
        await leave.wait()

    entering = asyncio.create_task(enter())
    await settle(backend)
    await asyncio.create_task(lock.__aexit__(None, None, None))
    assert lock_keys(backend) == []
    leave.set()
    await entering
    await usable()


async def test_left_in_another_task_after_a_loss(locks: LockManager, backend: MemoryBackend) -> None:
    acquisition = locks.lock("a").acquire()
    told: list[str] = []
    entered = asyncio.Event()

    async def enter() -> None:
        await acquisition.__aenter__()
        entered.set()
        try:
            await forever()
        except asyncio.CancelledError:
            told.append("cancelled")
        await settle(backend)

    entering = asyncio.create_task(enter())
    await entered.wait()
    backend.steal("a")
    await backend.clock.advance(TTL / 3)
    assert told == ["cancelled"]
    with expect_loss(LOST):
        await asyncio.create_task(acquisition.__aexit__(None, None, None))
    await settle(backend)
    await asyncio.wait({entering})


async def test_left_in_another_order(locks: LockManager, backend: MemoryBackend) -> None:
    """anyio's scopes nest; two blocks left crosswise still release both, whatever the error says."""
    first, second = locks.lock("a").acquire(), locks.lock("b").acquire()

    async def crosswise() -> None:
        await first.__aenter__()
        await second.__aenter__()
        try:
            await first.__aexit__(None, None, None)
        finally:
            await second.__aexit__(None, None, None)

    outcome = (await asyncio.gather(asyncio.create_task(crosswise()), return_exceptions=True))[0]
    assert outcome is None or isinstance(outcome, RuntimeError)
    await settle(backend)
    assert lock_keys(backend) == []


async def test_an_exit_stack(locks: LockManager, backend: MemoryBackend) -> None:
    names = [f"n{i}" for i in range(5)]
    with expect_loss(LOST, "'n2'"):
        async with AsyncExitStack() as stack:
            leases = [await stack.enter_async_context(locks.lock(name)) for name in names]
            soon(lambda: lose(leases[2]))
            await forever()
    await settle(backend)
    assert lock_keys(backend) == []


async def test_a_blocking_body(locks: LockManager, backend: MemoryBackend) -> None:
    with expect_loss(LossReason.LOOP_BLOCKED):
        async with locks.lock("a"):
            backend.clock.jump(DEADLINE + 1)
    await usable()


async def test_a_body_in_a_thread(locks: LockManager) -> None:
    """Documented: you cannot stop a thread; the block waits for it, then reports the loss."""
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease))
            await asyncio.to_thread(time.sleep, 0.01)
    await usable()


async def test_the_aggressive_policy_cancels_nothing(locks: LockManager) -> None:
    swallowed = False
    with expect_loss(LOST):
        async with locks.lock("a", cancel_on_loss=False) as lease:
            lose(lease)
            await usable()
            swallowed = True
    assert swallowed


async def test_a_task_that_was_cancelling_already(locks: LockManager) -> None:
    """A lock taken in a `finally` of a task that is being cancelled: its loss is still reported."""

    async def work() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            try:
                async with locks.lock("a") as lease:
                    soon(lambda: lose(lease))
                    await forever()
            except BaseException as error:
                return type(error).__name__
        return "nothing"

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    assert await task in ("LockLost", "CancelledError")


async def test_losses_leave_the_task_group_usable(locks: LockManager) -> None:
    survived: list[int] = []

    async def work(number: int) -> None:
        try:
            async with locks.lock(f"n{number}") as lease:
                soon(lambda: lose(lease))
                await forever()
        except LockLost:
            await usable()
            survived.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(work(number))
    assert sorted(survived) == list(range(20))


async def test_the_body_releases_on_its_way_out(locks: LockManager) -> None:
    """A release in the body's own `finally` does not hide the loss: `lost` in `Guard.exit` does not look at it."""
    with expect_loss(LOST):
        async with locks.lock("a") as lease:
            soon(lambda: lose(lease))
            try:
                await forever()
            finally:
                lease.release()  # not awaited: sent all the same
    await usable()
