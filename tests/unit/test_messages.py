"""What a message may change: anyone who may publish can send one."""

from __future__ import annotations

import logging

import pytest

from aiolock import LockManager
from aiolock.core.manager_channel import ManagerChannel
from aiolock.testing import MemoryBackend
from tests.support.locks import change

from .world import Crew, Holder, runtime_of, settle

NONSENSE = [
    "99999999999999999999",
    str(2**53),
    "9" * 5000,
    "١٢٣",
    "-1",
    "1e15",
    "nan",
    "",
    f"{2**53 - 1}",  # about 230 years ahead
]


def tell(manager: LockManager, backend: MemoryBackend, message: str) -> None:
    """Publish on the manager's channel."""
    runtime = runtime_of(manager)
    backend.store.publish(runtime.keys.manager(runtime.binding.id), message)


def doubts(caplog: pytest.LogCaptureFixture) -> int:
    """How often a user was told."""
    return sum("makes no sense" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("fence", NONSENSE, ids=range(len(NONSENSE)))
async def test_an_impossible_fence_is_not_believed(
    locks: LockManager,
    peer: LockManager,
    backend: MemoryBackend,
    crew: Crew,
    caplog: pytest.LogCaptureFixture,
    fence: str,
) -> None:
    """Otherwise every later fence, on every name, would be higher still. Kept by ManagerChannel: `whole`, and as only
    the server's answers count.
    """
    holding, waiting = Holder(crew, peer.lock("a")), Holder(crew, locks.lock("a"))
    await settle(backend)
    floor = runtime_of(locks).fences.floor
    for _ in range(3):
        tell(locks, backend, f"granted nobody:1 {fence} 0 aiolock:lock:{{a}}")
        await settle(backend)
    assert runtime_of(locks).fences.floor == floor
    await holding.end()
    await settle(backend)
    assert waiting.entered.result().fence < backend.clock.wall_us() + 10
    await waiting.end()
    assert doubts(caplog) == (fence != NONSENSE[-1])
    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []


@pytest.mark.parametrize(
    "message",
    [
        "admitted {owner} {new} 99999999999999999999 30000 0 1 aiolock:semaphore:{{a}}:state",
        "admitted {owner} {new} 99 1e5 0 1 aiolock:semaphore:{{a}}:state",
        "admitted {owner} {new} 99 30000 0 many aiolock:semaphore:{{a}}:state",
        "admitted {owner} {new} 99 30000 0 1",
        "granted {owner} 1e20 0 aiolock:lock:{{a}}",
        "granted {owner} 99 0",
        "granted {owner} 99",
        "granted {owner}",
        "hello",
        "\x00",
    ],
)
async def test_a_message_that_makes_no_sense_changes_nothing(
    locks: LockManager,
    peer: LockManager,
    backend: MemoryBackend,
    crew: Crew,
    caplog: pytest.LogCaptureFixture,
    message: str,
) -> None:
    """Kept by ManagerChannel._admitted, and `case _`."""
    lease = await peer.semaphore("a", 1).acquire()
    waiting = Holder(crew, locks.semaphore("a", 1))
    await settle(backend)
    runtime = runtime_of(locks)
    (entry,) = runtime.queue_entries.values()
    text = message.format(owner=entry.owner, new=10**16)
    for _ in range(3):
        tell(locks, backend, text)
        await settle(backend)
    assert not waiting.entered.done()
    assert doubts(caplog) == 1
    assert entry.owner not in caplog.text
    await lease.release()
    await settle(backend)
    assert waiting.entered.result().fence > lease.fence
    await waiting.end()


async def test_after_a_gap_all_ask_at_once(
    locks: LockManager, peer: LockManager, backend: MemoryBackend, crew: Crew
) -> None:
    """The subscription is there again: a grant may have gone by. Kept by ManagerChannel.on_message: `case []`."""
    kept = [await peer.lock(name).acquire() for name in "ab"]
    waiters = [Holder(crew, locks.lock(name)) for name in "ab"]
    await settle(backend)
    backend.calls.clear()
    ManagerChannel(runtime_of(locks)).on_message(None)
    await backend.clock.advance(0)
    assert backend.calls == ["refresh"]
    for lease, waiter in zip(kept, waiters, strict=True):
        await lease.release()
        await settle(backend)
        await waiter.end()


async def test_an_impossible_answer_stays_with_its_name(
    locks: LockManager, peer: LockManager, backend: MemoryBackend
) -> None:
    """A user wrote into a state by hand. Kept by Fences.heard: `MAX_FENCE`."""
    change(backend, "a", fence=2**53 - 1)
    async with locks.lock("a"):
        pass
    async with locks.lock("b") as lease:
        assert lease.fence < backend.clock.wall_us() + 10
