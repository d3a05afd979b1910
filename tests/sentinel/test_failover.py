"""Failovers by real Sentinels under a holder: the old master goes on for ten seconds, and no one is inside twice."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import time
from typing import Any

import pytest

from aiolock import BackendError, LockLost, LockManager
from aiolock.backends.sentinel.backend import SentinelBackend
from aiolock.backends.sentinel.watch import Watch
from aiolock.testing.server import RedisServer
from tests.support.proxy import FaultProxy
from tests.support.sentinels import SentinelSet

from .conftest import Opener

ENOUGH = 30.0


class Inside:
    """Who is inside a lock, and when each entered and left.

    Attributes:
        spans: entry, exit and fence of each, in the order of entries.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[float, float, int]] = []

    async def stay(self, locks: LockManager, seconds: float, entered: asyncio.Event | None = None) -> None:
        """Enter and stay, but not beyond a loss; try again after an error of the server."""
        until = time.monotonic() + ENOUGH
        while time.monotonic() < until:
            with contextlib.suppress(BackendError, LockLost):
                async with locks.lock("order:42") as lease:
                    begin = time.monotonic()
                    if entered is not None:
                        entered.set()
                    try:
                        await asyncio.sleep(seconds)
                    finally:
                        self.spans.append((begin, time.monotonic(), lease.fence))
                return

    def assert_alone(self) -> None:
        """No one was inside while another was, and fences rose."""
        spans = sorted(self.spans)
        for (_, left, fence), (entered, _, later) in itertools.pairwise(spans):
            assert left <= entered, spans
            assert fence < later, spans


def at(locks: LockManager) -> int:
    """The port of the server that a manager takes for the master."""
    master = locks._runtime.backend._master  # type: ignore[attr-defined]
    return int(master.address.port)


@pytest.mark.parametrize("ttl", [3.0, pytest.param(1.0, marks=pytest.mark.takes_long)])
async def test_graceful(ttl: float, sentinels: SentinelSet, opened: Opener) -> None:
    """A holder, and one who is on the new master as soon as it takes writes, a second before the Sentinels name it.

    With a ttl of 1 s the renewals on the old master must not count. Kept by Witness.undecided.
    """
    here = await opened(sentinels, ttl=ttl)
    inside, entered = Inside(), asyncio.Event()
    async with asyncio.timeout(ENOUGH), asyncio.TaskGroup() as group:
        group.create_task(inside.stay(here, 4.0, entered))
        await entered.wait()
        new = sentinels.failover()
        await sentinels.promoted(new)
        async with LockManager(sentinels.url(new), ttl=ttl) as there:
            await inside.stay(there, 2.0)
    assert len(inside.spans) >= 2
    inside.assert_alone()
    assert at(here) == new.port


async def test_a_grant_of_the_old_master_does_not_count(sentinels: SentinelSet, opened: Opener) -> None:
    """Many short sections of two processes, one of which is on the new master early. Kept by Witness.undecided.

    What the replica had of a hold ends soon after the promotion.
    """
    here = await opened(sentinels, ttl=0.5)
    inside, done = Inside(), False

    async def work(locks: LockManager) -> None:
        while not done:
            await inside.stay(locks, 0.002)

    workers = [asyncio.ensure_future(work(here)) for _ in range(2)]
    await asyncio.sleep(0.2)
    new = sentinels.failover()
    await sentinels.promoted(new)
    async with asyncio.timeout(ENOUGH), LockManager(sentinels.url(new)) as there:
        workers.append(asyncio.ensure_future(work(there)))
        await sentinels.failed_over(new)
        count = len(inside.spans)
        await sentinels.until(lambda: len(inside.spans) > count + 50)
        done = True
        await asyncio.gather(*workers)
    inside.assert_alone()
    assert at(here) == new.port


@pytest.mark.parametrize("options", [{}, {"min_replicas": 1, "replica_timeout": 0.1}], ids=["plain", "min_replicas"])
async def test_what_the_old_master_released_is_free_on_the_new_one(
    options: dict[str, Any], sentinels: SentinelSet, opened: Opener
) -> None:
    """It answers for a while after the promotion, so the new master has what was held then. Kept by Releases.repeat."""
    locks = await opened(sentinels, ttl=60.0, **options)
    counts, done, new = collections.Counter[str](), False, sentinels.replica()

    async def work(name: str) -> None:
        while not done:
            with contextlib.suppress(BackendError):  # a replica is missing for a while
                async with locks.lock(name) as lease:
                    assert not lease.abandoned
                    await asyncio.sleep(0.01)
                counts[name] += 1

    names = [f"n{number}" for number in range(8)]
    workers = [asyncio.ensure_future(work(name)) for name in names]
    assert sentinels.failover() is new
    async with asyncio.timeout(ENOUGH):
        await sentinels.failed_over(new)
        sentinels.link(sentinels.replica()).replicaof(new.host, str(new.port))
        await sentinels.until(lambda: at(locks) == new.port)
        before = counts.copy()
        await sentinels.until(lambda: all(counts[name] > before[name] + 2 for name in names))
        done = True
        await asyncio.gather(*workers)


@pytest.mark.parametrize("deaf", [Watch, SentinelBackend], ids=["through the master", "through the Sentinels"])
@pytest.mark.takes_long
async def test_a_manager_that_does_nothing_hears_of_it(
    deaf: type[Watch] | type[SentinelBackend],
    sentinels: SentinelSet,
    opened: Opener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By `+switch-master` of any Sentinel, and by what they say on the old master's own channel two seconds later."""
    monkeypatch.setattr(deaf, "_hear", lambda *_: None)
    locks = await opened(sentinels, ttl=60.0)
    new = sentinels.failover()
    await sentinels.failed_over(new)
    await sentinels.until(lambda: at(locks) == new.port, 8.0)
    async with asyncio.timeout(ENOUGH), locks.lock("order:42") as lease:
        assert lease.fence > 0


@pytest.mark.takes_long
async def test_the_master_is_killed(own_sentinels: SentinelSet, opened: Opener) -> None:
    """A lock that the replica has goes on; a waiter gets in behind it."""
    here, there = await opened(own_sentinels, ttl=10.0), await opened(own_sentinels, ttl=10.0)
    inside, entered = Inside(), asyncio.Event()
    old = own_sentinels.master()
    async with asyncio.timeout(ENOUGH), asyncio.TaskGroup() as group:
        group.create_task(inside.stay(here, 5.0, entered))
        await entered.wait()
        group.create_task(inside.stay(there, 0.1))
        await asyncio.sleep(0.5)
        own_sentinels.kill(old)
    inside.assert_alone()
    assert at(here) != old.port


@pytest.mark.takes_long
async def test_an_old_master_that_wakes_is_not_used(own_sentinels: SentinelSet, opened: Opener) -> None:
    """It still takes itself for the master, for ten seconds."""
    locks = await opened(own_sentinels, ttl=10.0, request_timeout=2.0)
    old = own_sentinels.master()
    async with locks.lock("before"):
        pass
    own_sentinels.freeze(old)
    new = own_sentinels.replica() if own_sentinels.master() is old else own_sentinels.master()
    await own_sentinels.failed_over(new)
    own_sentinels.thaw(old)
    async with asyncio.timeout(ENOUGH):
        for _ in range(50):
            async with locks.lock("after"):
                assert at(locks) == new.port
    assert written(own_sentinels, new)
    assert not written(own_sentinels, old)


def written(watched: SentinelSet, server: RedisServer) -> bool:
    """Whether the server itself was asked for the lock."""
    return bool(watched.link(server).exists("aiolock:lock:{after}"))


@pytest.mark.takes_long
async def test_a_replica_that_stops_is_no_failover(own_sentinels: SentinelSet, opened: Opener) -> None:
    """The Sentinels confirm the master at once, and locks go on. Kept by Witness.confirm: `unanimous`."""
    locks = await opened(own_sentinels)
    master = own_sentinels.master()
    async with asyncio.timeout(ENOUGH), locks.lock("kept") as lease:
        own_sentinels.kill(own_sentinels.replica())
        began = time.monotonic()
        async with locks.lock("other"):
            pass
        assert time.monotonic() - began < 1.0
        expiry = lease._hold.expiry
        await own_sentinels.until(lambda: lease._hold.expiry > expiry)
    assert at(locks) == master.port


@pytest.mark.takes_long
async def test_nobody_says_who_the_master_is(own_sentinels: SentinelSet, opened: Opener) -> None:
    """An acquire says so, and closing waits for no one. Kept by Witness: `closing`."""
    locks = await opened(own_sentinels, ttl=60.0, request_timeout=1.0)
    await locks.lock("kept").acquire()
    for server in (*own_sentinels.sentinels, own_sentinels.replica()):
        own_sentinels.kill(server)
    with pytest.raises(BackendError, match="the Sentinels have not said that it is still the master"):
        await locks.lock("other").acquire()
    async with asyncio.timeout(5.0):
        await locks.close()


@pytest.mark.takes_long
async def test_sentinels_that_no_longer_answer(own_sentinels: SentinelSet) -> None:
    """What was lost on the way to them is not awaited for ever. Kept by SentinelBackend._ask: its timeout."""
    async with asyncio.timeout(ENOUGH), contextlib.AsyncExitStack() as stack:
        relays = [await stack.enter_async_context(FaultProxy(*address)) for address in own_sentinels.addresses]
        addresses = [("127.0.0.1", relay.port) for relay in relays]
        locks = LockManager.sentinel(addresses, service=own_sentinels.service, ttl=60.0, request_timeout=1.0)
        await stack.enter_async_context(locks)
        for relay in relays:
            relay.blackhole("requests")
        own_sentinels.kill(own_sentinels.replica())
        with pytest.raises(BackendError, match="the Sentinels have not said"):
            await locks.lock("order:42").acquire()
        for relay in relays:
            relay.heal()
        async with locks.lock("order:42").acquire(timeout=5.0) as lease:
            assert lease.fence > 0


@pytest.mark.takes_long
async def test_with_some_sentinels_down(own_sentinels: SentinelSet, opened: Opener) -> None:
    own_sentinels.kill(own_sentinels.sentinels[0])
    own_sentinels.freeze(own_sentinels.sentinels[1])
    locks = await opened(own_sentinels)
    async with asyncio.timeout(ENOUGH), locks.lock("order:42") as lease:
        assert lease.fence > 0


@pytest.mark.takes_long
async def test_min_replicas(sentinels: SentinelSet, opened: Opener) -> None:
    """The replicas' own acknowledgement takes the place of the Sentinels' confirmation."""
    options = {"min_replicas": 1, "replica_timeout": 0.1, "ttl": 2.0}
    here, there = await opened(sentinels, **options), await opened(sentinels, **options)
    inside, entered = Inside(), asyncio.Event()
    async with asyncio.timeout(ENOUGH), asyncio.TaskGroup() as group:
        group.create_task(inside.stay(here, 3.0, entered))
        await entered.wait()
        new = sentinels.failover()
        await sentinels.failed_over(new)
        sentinels.link(sentinels.replica()).replicaof(new.host, str(new.port))
        group.create_task(inside.stay(there, 0.1))
    inside.assert_alone()
