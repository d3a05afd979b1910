"""Renewals: many in a request, each judged by itself."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TypeVar

import pytest

from aiolock import BackendError, LockLost, LockManager, LossReason
from aiolock.core.policy import MAX_EARLY
from aiolock.core.renewals import CHUNK
from aiolock.scripts.base import Call
from aiolock.scripts.multi import renew
from aiolock.testing import MemoryBackend

from .test_scheduler import Item
from .world import DEADLINE, TTL, runtime_of, settle

R = TypeVar("R")


class Choosy(MemoryBackend):
    """Counts renewal requests, and refuses each that touches one of `denied`, as an ACL on a key would."""

    def __init__(self) -> None:
        super().__init__()
        self.denied: set[str] = set()
        self.batches: list[int] = []

    def _execute(self, call: Call[R]) -> R | BackendError:
        if call.script.name == "renew":
            self.batches.append(len(call.keys))
            if any(f"{{{name}}}" in key for key in call.keys for name in self.denied):
                return BackendError("", "NOPERM no permissions to access one of the keys")
        return super()._execute(call)


async def test_renewals_of_one_moment_leave_in_chunks() -> None:
    """`Scheduler._call_due`: CHUNK holds a request; §6, one task renews thousands."""
    backend = Choosy()
    async with LockManager(backend) as locks, AsyncExitStack() as stack:
        for i in range(2 * CHUNK + 20):
            await stack.enter_async_context(locks.lock(f"n{i}"))
        await backend.clock.advance(TTL / 3)
        assert backend.batches == [CHUNK, CHUNK, 20]
        await backend.clock.advance(TTL / 3)
        assert backend.batches == [CHUNK, CHUNK, 20] * 2


class Scattered(Choosy):
    """Keeps each name in a slot of its own."""

    def slot(self, key: str) -> int:
        return hash(key.split("{")[1].split("}")[0])


async def test_one_request_has_names_of_one_slot() -> None:
    """`Renewals.write`: a server of a cluster refuses a request about two slots."""
    backend = Scattered()
    async with LockManager(backend) as locks, locks.lock("a"), locks.lock("b"), locks.fair_lock("c"):
        await backend.clock.advance(TTL / 3)
        assert backend.batches == [1, 1, 1]


async def test_renewals_of_almost_one_moment_leave_together() -> None:
    """`Scheduler._call_due`: a thirtieth of the ttl early, with others; never alone, and never late."""
    backend = Choosy()
    async with LockManager(backend) as locks, AsyncExitStack() as stack:
        for pause in (0.0, MAX_EARLY * 0.9, MAX_EARLY * 0.2):
            await backend.clock.advance(pause)
            await stack.enter_async_context(locks.lock(f"n{pause}"))
        item = Item(backend.clock)
        runtime_of(locks).scheduler.schedule(item, backend.clock.now() + TTL / 3 - MAX_EARLY)
        await backend.clock.advance(TTL / 3 - MAX_EARLY * 1.1)
        assert item.seen == []  # a lease that did not agree to it is not looked at early
        assert backend.batches == [2]  # at the first one's time; the third is too early
        await backend.clock.advance(MAX_EARLY)
        assert backend.batches == [2]
        await backend.clock.advance(MAX_EARLY * 0.1)
        assert backend.batches == [2, 1]


async def test_a_short_lease_is_not_renewed_with_long_ones_early() -> None:
    """`Policy.early`: a thirtieth of its own ttl."""
    backend = Choosy()
    async with LockManager(backend) as locks, locks.lock("long"):
        async with locks.lock("short", ttl=3.0):
            await backend.clock.advance(1.0)
            assert backend.batches == [1]
        await backend.clock.advance(TTL / 3 - 1.15)
        async with locks.lock("another", ttl=3.0):
            await backend.clock.advance(0.15)
            assert backend.batches == [1, 1]  # the long one in time, without one that is due in 0.85 s


async def test_a_chunk_has_a_maximum_of_keys() -> None:
    """`_chunks`: a renewal of a multi lock is as large as those of all its names."""
    backend = Choosy()
    async with LockManager(backend) as locks, AsyncExitStack() as stack:
        for i in range(60):
            await stack.enter_async_context(locks.multi_lock(*(f"{i}.{part}" for part in range(64))))
        await backend.clock.advance(TTL / 3)
        assert sum(backend.batches) == 60 * 64
        assert max(backend.batches) <= renew.most_keys
        assert len(backend.batches) == 15


async def test_a_denied_key_spoils_no_other_lease(caplog: pytest.LogCaptureFixture) -> None:
    """C5. `Renewals._request`: one that fails as a whole is split down to single keys."""
    backend = Choosy()
    async with LockManager(backend) as locks:
        leases = [await locks.lock(f"n{i}").acquire() for i in range(16)]
        bad = leases[5]
        backend.denied = {"n5"}
        await backend.clock.advance(TTL / 3)
        assert sorted(backend.batches) == [1, 1, 2, 2, 4, 4, 8, 8, 16]
        assert {lease.name for lease in leases if lease.remaining() < DEADLINE - 1} == {"n5"}
        await backend.clock.advance(TTL)
        assert [lease.name for lease in leases if lease.lost] == ["n5"]
        assert bad.reason is LossReason.UNREACHABLE
        with pytest.raises(LockLost) as caught:
            await bad.release()
        assert "NOPERM" in str(caught.value.__cause__)
        assert "NOPERM" in str(caught.value)  # it is reachable
        backend.denied = set()
        for lease in leases:
            if lease is not bad:
                await lease.release()
    assert caplog.text.count("could not renew") == 1


async def test_a_wrong_type_spoils_no_other_lease(locks: LockManager, backend: MemoryBackend) -> None:
    """C5, the other half: `renew_one` judges each key under pcall."""
    leases = [await locks.lock(f"n{i}").acquire() for i in range(3)]
    key = "aiolock:lock:{n1}"
    backend.store.delete(key)
    backend.store.set(key, "a string", 3_600_000)
    backend.calls.clear()
    await backend.clock.advance(TTL / 3)
    assert backend.calls == ["renew"]
    await backend.clock.advance(2 * TTL)
    assert [lease.reason for lease in leases] == [None, LossReason.UNREACHABLE, None]
    backend.store.delete(key)
    for lease in (leases[0], leases[2]):
        await lease.release()
    with pytest.raises(LockLost):
        await leases[1].release()


async def test_renewal_does_not_wait_for_answers(locks: LockManager, backend: MemoryBackend) -> None:
    """§6: it never awaits I/O; a second lease is renewed while the first one's answer is missing."""
    first = await locks.lock("first").acquire()
    await backend.clock.advance(5)
    second = await locks.lock("second").acquire()
    with backend.outage():
        await backend.clock.advance(11)
        waiting = [call.script.name for call in backend._backlog]
    assert waiting == ["renew", "renew"]
    await settle(backend)
    assert not first.lost
    assert not second.lost
    await first.release()
    await second.release()
