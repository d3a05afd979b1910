"""How a multi lock's entry waits: it queues, gathers and gives back; and what can go wrong with each of these."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest

from aiolock import AcquireTimeout, BackendError, LockManager, NotAcquired
from aiolock.core.waiting.gathering import LONGEST, SHORTEST
from aiolock.scripts.base import Call
from aiolock.testing import MemoryBackend
from tests.support.locks import let_expire, state, waiting

from .world import BEAT, LIVENESS, Crew, Deaf, Holder, SlowBackend, assert_empty, inside, lock_keys, runtime_of, settle

R = TypeVar("R")
Phase = str


class Busy(Deaf):
    """Answers that it is `busy`."""

    busy = False

    def _execute(self, call: Call[R]) -> R | BackendError:
        if self.busy and call.script.name == "acquire":
            return BackendError(call.name, "LOADING the dataset", transient=True)
        return super()._execute(call)


class Overtaking(SlowBackend):
    """Its messages arrive before the answers that were on their way."""

    def _deliver(self, channel: str, payload: str) -> None:
        MemoryBackend._deliver(self, channel, payload)


@pytest.fixture
def backend() -> MemoryBackend:
    return Busy()


@pytest.fixture
async def third(backend: MemoryBackend) -> AsyncIterator[LockManager]:
    """One more process."""
    async with LockManager(MemoryBackend(backend)) as manager:
        yield manager
        await settle(backend)
        assert_empty(manager)


def reserved(backend: MemoryBackend, name: str, manager: LockManager) -> bool:
    """The manager has the name, but does not hold it."""
    seen = state(backend, name)
    return (seen.manager, seen.depth) == (runtime_of(manager).binding.id, 0)


async def stand(backend: MemoryBackend, locks: LockManager, crew: Crew, **options: float | None) -> Holder:
    """Another owner holds a and b, a for longer, and a multi lock queues there."""
    backend.steal("a")
    await backend.clock.advance(0.001)
    backend.steal("b")
    holder = Holder(crew, locks.multi_lock("a", "b", "c"), **options)
    await settle(backend)
    assert (len(waiting(backend, "a")), waiting(backend, "b"), waiting(backend, "c")) == (1, [], [])
    return holder


async def gather(backend: MemoryBackend, locks: LockManager, crew: Crew, **options: float | None) -> Holder:
    """It has a and c reserved, and waits for b."""
    holder = await stand(backend, locks, crew, **options)
    backend.give_back("a")
    await settle(backend)
    assert reserved(backend, "a", locks)
    assert reserved(backend, "c", locks)
    assert len(waiting(backend, "b")) == 1
    return holder


PHASES: dict[Phase, Callable[..., object]] = {"standing": stand, "gathering": gather}
in_each_phase = pytest.mark.parametrize("phase", PHASES)


# How long it keeps what it cannot use.


@pytest.mark.parametrize(("waits", "limit"), [(0.0, SHORTEST), (0.06, SHORTEST), (8.0, 2.0), (60.0, LONGEST)])
async def test_it_gives_back_in_time(
    backend: MemoryBackend, locks: LockManager, peer: LockManager, crew: Crew, waits: float, limit: float
) -> None:
    """Kept by `SHARE`, `SHORTEST` and `LONGEST`; and by Gathering.schedule: the limit may come before a request."""
    holder = await stand(backend, locks, crew)
    await backend.clock.advance(waits)
    plain = [Holder(crew, peer.lock(name)) for name in "a"]
    await settle(backend)
    backend.give_back("a")
    await settle(backend)
    plain.append(Holder(crew, peer.lock("c")))
    await backend.clock.advance(limit - 0.002)
    assert [reserved(backend, name, locks) for name in "abc"] == [True, False, True]
    await backend.clock.advance(0.004)
    assert all(one.entered.done() for one in plain)
    assert [len(waiting(backend, name)) for name in "abc"] == [0, 1, 0]  # it queues at the older hold
    for one in plain:
        await one.end()
    backend.give_back("b")
    await settle(backend)
    await holder.entered
    await holder.end()


async def test_its_number_is_for_all_names_and_for_good(
    backend: MemoryBackend, locks: LockManager, peer: LockManager, crew: Crew
) -> None:
    """An owner that gave back precedes all that came after it, in every queue. Kept by Gathering.queued: `_number`."""
    holder = await gather(backend, locks, crew)
    await backend.clock.advance(2 * SHORTEST)
    assert state(backend, "a").holder == ""
    late = [Holder(crew, peer.multi_lock("a", "b")), Holder(crew, peer.lock("b"))]
    backend.steal("a")
    await backend.clock.advance(1.0)
    assert next(entry.partition(":")[0] for entry in waiting(backend, "b")) == runtime_of(locks).binding.id
    for name in "ab":
        backend.give_back(name)
    await settle(backend)
    assert holder.entered.done()
    assert not any(one.entered.done() for one in late)
    await holder.end()
    for one in late:
        await one.entered
        await one.end()


async def test_another_owner_has_the_same_number(
    backend: MemoryBackend, locks: LockManager, peer: LockManager, crew: Crew
) -> None:
    """A request without a verdict ends the owner id, but not the place. Kept by Gathering.ask: `number`."""
    assert isinstance(backend, Busy)
    holder = await gather(backend, locks, crew)
    late = Holder(crew, peer.lock("b"))
    await settle(backend)
    (entry,) = runtime_of(locks).queue_entries.values()
    owner, backend.busy = entry.owner, True
    entry.verify()
    await settle(backend)
    backend.busy = False
    assert [one.partition(":")[0] for one in waiting(backend, "b")] == [runtime_of(peer).binding.id]
    await backend.clock.advance(0.2)
    assert entry.owner != owner
    assert waiting(backend, "b")[0] == entry.owner
    backend.give_back("b")
    await settle(backend)
    assert holder.entered.done()
    await holder.end()
    await settle(backend)
    assert late.entered.done()
    await late.end()


async def test_saturated_names_let_it_in(
    backend: MemoryBackend, locks: LockManager, peer: LockManager, third: LockManager, crew: Crew
) -> None:
    """Two processes with three tasks at each name, without a pause: it waits for a few of their turns."""
    entries = dict.fromkeys("ab", 0)

    async def crowd(manager: LockManager, name: str) -> None:
        while True:
            async with manager.lock(name):
                entries[name] += 1
                await pass_time()

    async def pass_time() -> None:
        moment: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        backend.clock.call_at(backend.clock.now() + 0.001, lambda: moment.done() or moment.set_result(None))
        await moment

    for manager in (peer, third):
        for name in "ab":
            for _ in range(3):
                crew.start(crowd(manager, name))
    await backend.clock.advance(0.05)
    for _ in range(5):
        began, before = backend.clock.now(), min(entries.values())
        holder = Holder(crew, locks.multi_lock("a", "b"))
        while not holder.entered.done():
            await backend.clock.advance(0.001)
        assert backend.clock.now() - began < 0.05
        await holder.end()
        await backend.clock.advance(0.03)
        assert min(entries.values()) - before > 10


# Among others.


async def test_the_older_of_two_takes_what_the_younger_reserved(
    backend: MemoryBackend, locks: LockManager, crew: Crew
) -> None:
    """Each has what the other needs: that ends at once, and not with the limit. Kept by `number`, in each request."""
    slow = SlowBackend(backend, turns=8)
    async with LockManager(slow) as peer:
        backend.steal("b")
        older = Holder(crew, peer.multi_lock("a", "b"))
        await settle(backend)
        await backend.clock.advance(0.001)
        backend.steal("a")
        backend.give_back("b")  # the older one's; its request for the rest is on its way for long
        younger = Holder(crew, locks.multi_lock("a", "b"))
        for _ in range(4):
            await asyncio.sleep(0)
        backend.give_back("a")
        assert reserved(backend, "a", locks)
        assert reserved(backend, "b", peer)
        await settle(backend)
        assert (older.entered.done(), younger.entered.done()) == (True, False)
        await older.end()
        await settle(backend)
        assert younger.entered.done()
        await younger.end()
        await settle(backend)


async def test_a_cycle_with_nested_plain_locks_ends_at_the_limit(
    backend: MemoryBackend, locks: LockManager, peer: LockManager, crew: Crew
) -> None:
    """It has b, and waits for a; the holder of a waits for b. Kept by Gathering._give_back."""
    backend.steal("b")
    await backend.clock.advance(0.001)
    lease = await peer.lock("a").acquire()
    multi = Holder(crew, locks.multi_lock("a", "b"))
    await backend.clock.advance(4.0)
    backend.give_back("b")
    await settle(backend)
    assert reserved(backend, "b", locks)
    inner = Holder(crew, peer.lock("b"))
    await backend.clock.advance(0.9)
    assert not inner.entered.done()
    await backend.clock.advance(0.2)
    assert inner.entered.done()
    assert not multi.entered.done()
    await inner.end()
    await lease.release()
    await settle(backend)
    assert multi.entered.done()
    await multi.end()


async def test_plain_locks_of_other_names_nest_inside(locks: LockManager, backend: MemoryBackend) -> None:
    async with locks.multi_lock("a", "b"), locks.lock("c"), locks.multi_lock("d", "e"):
        assert [state(backend, name).depth for name in "abcde"] == [1] * 5
    await settle(backend)
    assert lock_keys(backend) == []


async def test_tasks_of_a_process_share_one_entry(backend: MemoryBackend, locks: LockManager, crew: Crew) -> None:
    """The task that is first when the grant arrives takes it, with its own options. Kept by MultiCalls.ordered; and by
    its renewal, which says who has it, if the task that asked is gone.
    """
    asker = await gather(backend, locks, crew)
    others = [Holder(crew, locks.multi_lock("a", "b", "c", ttl=60.0, metadata=text)) for text in ("one", "two")]
    await settle(backend)
    assert len(waiting(backend, "b")) == 1
    asker.task.cancel()
    await settle(backend)
    assert reserved(backend, "a", locks)
    backend.give_back("b")
    await settle(backend)
    assert inside(others) == [True, False]
    info = await locks.multi_lock("a", "b", "c").info()
    await others[0].end()
    await settle(backend)
    assert others[1].entered.done()
    assert {each.metadata for each in (await locks.multi_lock("a", "b").info()).values()} == {"two"}
    assert len(info) == 3
    await others[1].end()


async def test_sets_that_overlap_in_a_process_are_strangers(
    backend: MemoryBackend, locks: LockManager, crew: Crew
) -> None:
    lease = await locks.lock("b").acquire()
    first, second = Holder(crew, locks.multi_lock("a", "b")), Holder(crew, locks.multi_lock("b", "c"))
    plain = Holder(crew, locks.lock("c"))
    await settle(backend)
    assert plain.entered.done()
    await lease.release()
    await settle(backend)
    assert (first.entered.done(), second.entered.done()) == (True, False)
    await first.end()
    await plain.end()
    await settle(backend)
    assert second.entered.done()
    await second.end()


# Its end.


@in_each_phase
@pytest.mark.parametrize("way", ["cancel", "timeout", "close"])
async def test_a_waiter_that_gives_up_leaves_nothing(
    backend: MemoryBackend, peer: LockManager, crew: Crew, phase: Phase, way: str
) -> None:
    """Kept by Gathering.end: one request, for all names and queues."""
    async with LockManager(MemoryBackend(backend)) as locks:
        holder = await PHASES[phase](backend, locks, crew, timeout=0.5 if way == "timeout" else None)  # type: ignore[misc]
        next_one = Holder(crew, peer.lock("a"))
        await settle(backend)
        assert not next_one.entered.done()
        if way == "cancel":
            holder.task.cancel()
        elif way == "timeout":
            backend.give_back("a")
            await backend.clock.advance(0.5)
        else:
            await locks.aclose()
        await settle(backend)
        error = {"cancel": asyncio.CancelledError, "timeout": AcquireTimeout, "close": NotAcquired}[way]
        with pytest.raises(error, match="'b' is held by a thief" if way == "timeout" else None):
            await holder.task
        if phase == "standing":
            backend.give_back("a")
        await settle(backend)
        assert next_one.entered.done()
        await next_one.end()
        backend.give_back("b")
        await settle(backend)
        assert lock_keys(backend) == []


@in_each_phase
async def test_the_dead_keep_nothing(
    backend: MemoryBackend, locks: LockManager, peer: LockManager, crew: Crew, phase: Phase
) -> None:
    """A process that is gone sends nothing more: its place and its reservations end with its time."""
    dead = Busy(backend)
    async with LockManager(dead) as other:
        gone = await PHASES[phase](backend, other, crew)  # type: ignore[misc]
        with dead.outage():
            dead.deaf = True
            waiters = [Holder(crew, manager.lock("a")) for manager in (locks, peer)]
            await settle(backend)
            if phase == "standing":
                await backend.clock.advance(LIVENESS)
                backend.give_back("a")
            await backend.clock.advance(LIVENESS + 0.1)
            assert waiters[0].entered.done()
            for waiter in waiters:
                await waiter.end()
            gone.task.cancel()
            await settle(backend)
    backend.give_back("b")
    assert lock_keys(backend) == []


async def test_an_outage_is_waited_out(backend: MemoryBackend, locks: LockManager, crew: Crew) -> None:
    """While it gathers, and for longer than it counts as alive."""
    holder = await gather(backend, locks, crew)
    with backend.outage():
        await backend.clock.advance(2 * LIVENESS)
    backend.give_back("b")
    await backend.clock.advance(BEAT)
    assert holder.entered.done()
    await holder.end()


# What gets lost.


async def test_a_lost_message_is_compensated(backend: MemoryBackend, locks: LockManager, crew: Crew) -> None:
    """By the next refresh while it queues, by the next request while it gathers."""
    deaf = backend
    assert isinstance(deaf, Busy)
    holder = await stand(backend, locks, crew)
    await backend.clock.advance(10.0)
    deaf.deaf = True
    backend.give_back("a")
    assert reserved(backend, "a", locks)
    await backend.clock.advance(BEAT + 0.01)
    assert reserved(backend, "c", locks)  # so it has asked
    backend.give_back("b")
    await settle(backend)
    assert not holder.entered.done()
    await backend.clock.advance(BEAT + 0.01)
    assert holder.entered.done()
    await holder.end()


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("script", range(6))
async def test_a_connection_that_dies_at_any_request(
    backend: MemoryBackend, locks: LockManager, peer: LockManager, crew: Crew, script: int, lost: str
) -> None:
    """From the first request to the release, including what it gives back in between: it gets in, and nothing is
    left.
    """
    backend.steal("a")
    await backend.clock.advance(0.001)
    backend.steal("b")
    ran: list[str] = []

    def fail_at(number: int) -> None:
        if len(ran) == number:
            backend.fail_next(lost)  # type: ignore[arg-type]
        ran.append("")

    fail_at(script)
    holder = Holder(crew, locks.multi_lock("a", "b"))
    await settle(backend)
    fail_at(script)
    backend.give_back("a")
    await settle(backend)
    fail_at(script)
    await backend.clock.advance(SHORTEST + 0.001)  # it gives back
    fail_at(script)
    await backend.clock.advance(BEAT + 0.001)  # it refreshes
    fail_at(script)
    backend.give_back("b")
    await backend.clock.advance(LIVENESS + 1)
    assert holder.entered.done()
    fail_at(script)
    await holder.end()
    await settle(backend)
    assert lock_keys(backend) == []


async def test_it_asks_again_when_the_connection_is_back(
    backend: MemoryBackend, locks: LockManager, crew: Crew
) -> None:
    """What it has may have changed without a message reaching it. Kept by Gathering.verify."""
    holder = await stand(backend, locks, crew)
    with backend.outage():
        for name in "ab":
            let_expire(backend, name)
    await settle(backend)
    assert holder.entered.done()
    await holder.end()


async def test_a_message_before_the_answer_is_remembered(backend: MemoryBackend, crew: Crew) -> None:
    """A grant is announced while a request is on its way: it asks again after that. Kept by `_again`."""
    async with LockManager(Overtaking(backend, turns=4)) as locks:
        backend.steal("a")
        holder = Holder(crew, locks.multi_lock("a", "b"))
        while not waiting(backend, "a"):  # noqa: ASYNC110 - the answer is some turns behind that
            await asyncio.sleep(0)
        (entry,) = runtime_of(locks).queue_entries.values()
        backend.give_back("a")
        assert entry.state.name == "ASKING"
        await settle(backend)
        assert holder.entered.done()
        await holder.end()
        await settle(backend)


async def test_what_is_taken_by_force_is_asked_for_again(
    backend: MemoryBackend, locks: LockManager, peer: LockManager, crew: Crew
) -> None:
    """Kept by ManagerChannel.on_message: `revoked`, for an owner that does not hold yet."""
    holder = await gather(backend, locks, crew)
    assert await peer.lock("a").force_release()
    await settle(backend)
    assert reserved(backend, "a", locks)
    backend.give_back("b")
    await settle(backend)
    assert holder.entered.done()
    await holder.end()


async def test_a_grant_that_was_lost_in_part_is_ended(backend: MemoryBackend, locks: LockManager, crew: Crew) -> None:
    """The answer that it holds all was lost, and another owner took a part before it asked again: it starts anew, under
    another id. Kept by QueueEntry.take: `Lost`.
    """
    backend.fail_next("reply")
    holder = Holder(crew, locks.multi_lock("a", "b"))
    for _ in range(20):
        if state(backend, "b").holder:
            break
        await asyncio.sleep(0)
    backend.steal("b")
    await settle(backend)
    assert not holder.entered.done()
    assert not state(backend, "a").depth
    backend.give_back("b")
    await settle(backend)
    assert holder.entered.done()
    await holder.end()
    await settle(backend)
    assert lock_keys(backend) == []
