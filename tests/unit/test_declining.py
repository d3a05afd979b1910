"""Grants to owners that have ended: their entries came back, as after a failover that forgot how they left."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from aiolock import BackendError, LockManager
from aiolock.scripts.base import Call
from aiolock.scripts.store import Scores
from aiolock.testing import MemoryBackend
from tests.support.locks import held_names

from .world import Crew, Deaf, Holder, assert_empty, inside, queue_up, runtime_of, settle

Make = Callable[[LockManager], Any]
ALONE: dict[str, Make] = {
    "lock": lambda manager: manager.lock("a"),
    "fair_lock": lambda manager: manager.fair_lock("a"),
    "semaphore": lambda manager: manager.semaphore("a", 1),
    "write": lambda manager: manager.rw_lock("a").write,
}
MAKE: dict[str, Make] = {**ALONE, "multi_lock": lambda manager: manager.multi_lock("a", "b {%7B} c")}


class Told(Deaf):
    """Keeps what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, str]] = []

    def _deliver(self, channel: str, payload: str) -> None:
        self.told.append((channel, payload))
        super()._deliver(channel, payload)

    def again(self) -> None:
        """Deliver copies of all of it."""
        for channel, payload in list(self.told):
            super()._deliver(channel, payload)


@pytest.fixture
def backend() -> Told:
    return Told()


def copied(value: Any) -> Any:
    """A value of the store, as it is now."""
    if not isinstance(value, Scores):
        return copy.copy(value)
    scores = Scores()
    for member, score in value.items():
        scores[member] = score
    return scores


def snapshot(backend: MemoryBackend) -> Callable[[], None]:
    """What the replica has heard of; the result promotes it."""
    store = backend.store
    values = {key: copied(value) for key, value in store._values.items()}
    expiries = dict(store._expiries)

    def promote() -> None:
        store._values, store._expiries = values, expiries

    return promote


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_they_cost_the_others_no_time(
    locks: LockManager, peer: LockManager, backend: Told, crew: Crew, make: Make
) -> None:
    """Each is given back when its message comes. Kept by ManagerChannel.on_message: `decline`."""
    lease = await make(peer).acquire()
    gone = await queue_up(crew, make(locks), 3, backend)
    waiting = await queue_up(crew, make(peer), 1, backend)
    promote = snapshot(backend)
    for one in gone:
        one.task.cancel()
    await settle(backend)
    promote()
    began = backend.clock.now()
    await lease.release()
    await settle(backend)
    assert backend.clock.now() == began
    assert inside(waiting) == [True]
    assert not waiting[0].entered.result().abandoned
    await waiting[0].end()
    await settle(backend)
    assert held_names(backend) == []
    assert_empty(locks)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_an_owner_that_was_in_and_out(
    locks: LockManager, peer: LockManager, backend: Told, crew: Crew, make: Make
) -> None:
    """Kept by ManagerChannel.on_message: `decline`."""
    lease = await make(peer).acquire()
    (gone,) = await queue_up(crew, make(locks), 1, backend)
    promote = snapshot(backend)
    await lease.release()
    await settle(backend)
    assert inside([gone]) == [True]
    await gone.end()
    await settle(backend)
    promote()
    hold = lease._hold
    backend._execute(hold.calls.release(hold.owner, hold.ttl_ms, 0, "clean", False))
    await settle(backend)
    assert held_names(backend) == []


async def test_several_names_at_the_same_time(locks: LockManager, peer: LockManager, backend: Told, crew: Crew) -> None:
    """A multi lock was in several queues, and is first in all of them. Kept by `decline`: it notes no owner."""
    first, *leases = [await peer.lock(name).acquire() for name in "abc"]
    (gone,) = await queue_up(crew, locks.multi_lock("a", "b", "c"), 1, backend)
    await first.release()
    await settle(backend)
    waiting = [one for name in "bc" for one in await queue_up(crew, peer.fair_lock(name), 1, backend)]
    promote = snapshot(backend)
    gone.task.cancel()
    await settle(backend)
    promote()
    for lease in leases:
        lease.release()
    await settle(backend)
    assert inside(waiting) == [True, True]
    for one in waiting:
        await one.end()


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_a_copy_of_its_message_ends_nothing(
    locks: LockManager, peer: LockManager, backend: Told, crew: Crew, make: Make
) -> None:
    """Neither before its task has run, nor while it is inside. Kept by `admit`: `queue_entries`; and by `decline`:
    `holds`.
    """
    lease = await make(peer).acquire()
    (waiting,) = await queue_up(crew, make(locks), 1, backend)
    deliver = backend._deliver
    backend._deliver = lambda channel, payload: [deliver(channel, payload) for _ in range(2)]  # type: ignore[assignment,method-assign,return-value]
    await lease.release()
    await settle(backend)
    assert inside([waiting]) == [True]
    backend.again()
    await settle(backend)
    assert "release" not in backend.calls
    waiting.entered.result().ensure()
    await waiting.end()


@pytest.mark.parametrize("make", ALONE.values(), ids=ALONE)
async def test_a_copy_of_its_message_does_not_end_a_detached_lease(
    locks: LockManager, peer: LockManager, backend: Told, crew: Crew, make: Make
) -> None:
    """The manager knows nothing of it any more. Kept by release.lua: 'declined'."""
    lease = await make(peer).acquire()
    waiting = crew.start(make(locks).acquire())
    await settle(backend)
    await lease.release()
    ticket = await (await waiting).detach()
    backend.calls.clear()
    backend.again()
    await settle(backend)
    assert backend.calls == ["release"]
    async with peer.resume(ticket) as resumed:
        backend.again()
        await settle(backend)
        resumed.ensure()
        await resumed.renew()


async def test_a_copy_of_its_message_while_its_end_is_repeated(
    locks: LockManager, peer: LockManager, backend: Told, crew: Crew
) -> None:
    """Otherwise its release would find nothing, and report a loss. Kept by Release.settle: `ending`."""
    lease = await peer.semaphore("a", 1).acquire()
    waiting = crew.start(locks.semaphore("a", 1).acquire())
    await settle(backend)
    await lease.release()
    late = await waiting
    execute, refused = backend._execute, []

    def refuse(call: Call[Any]) -> Any:
        if call.script.name == "release" and not refused:
            refused.append(call)
            return BackendError("a", "TRYAGAIN", transient=True)
        return execute(call)

    backend._execute = refuse  # type: ignore[method-assign]
    released = late.release()
    await settle(backend)
    assert refused
    backend.again()
    await settle(backend)
    await backend.clock.advance(0.1)
    await released
    assert runtime_of(locks).ending == set()
    assert held_names(backend) == []


@pytest.mark.parametrize(
    "message",
    [
        "granted {peer}:7 99 0 aiolock:lock:{{a}}",
        "granted {own}:7 99 0 aiolock:latch:{{a}}",
        "granted {own}:7 99 0 aiolock:lock:a",
        "granted {own}:7 99 0 others:lock:{{a}}",
        "granted {own}:7 99 0 aiolock:lock:{{}}",
        "granted {own}:7 99 0  ",
        "granted {own}:7 1e20 0 aiolock:lock:{{a}}",
        "admitted {peer}:7 9 99 3000 0 1 aiolock:semaphore:{{a}}:state",
        "admitted {own}:7 9 99 3000 0 x aiolock:semaphore:{{a}}:state",
        "admitted {own}:7 9 99 3000 0 1",
    ],
)
async def test_what_others_publish_causes_no_request(
    locks: LockManager, peer: LockManager, backend: Told, message: str
) -> None:
    """Kept by `decline`: `binding.id`, KINDS; and by Keys.read."""
    runtime = runtime_of(locks)
    own, other = runtime.binding.id, runtime_of(peer).binding.id
    backend.store.publish(runtime.keys.manager(own), message.format(own=own, peer=other))
    await settle(backend)
    assert backend.calls == []


async def test_a_hold_of_the_same_name_stays(locks: LockManager, backend: Told, crew: Crew) -> None:
    """A message about an owner that never was ends no other. Kept by release.lua: `owner`."""
    holding = Holder(crew, locks.lock("a"))
    await settle(backend)
    runtime = runtime_of(locks)
    fence = holding.entered.result().fence
    backend.store.publish(
        runtime.keys.manager(runtime.binding.id), f"granted {runtime.binding.id}:77 {fence} 0 aiolock:lock:{{a}}"
    )
    await settle(backend)
    assert backend.calls[-1] == "release"
    await holding.entered.result().renew()
    await holding.end()
