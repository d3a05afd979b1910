"""The master dies and the replica is promoted: two holders without acknowledgements, never with all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiolock import BackendError, Lease, LockManager
from tests.faults.scene import NAME, Opener, Server
from tests.support import redis_cli
from tests.support.replication import Pair

from .conftest import HASTY, PLAIN

TASKS = 8
Promoted = Callable[[], Awaitable[LockManager]]


@pytest.fixture
def replicated(own_pair: Pair) -> Pair:
    """A pair to kill; the fixtures of this folder build on it."""
    return own_pair


@pytest.fixture
def promoted(replicated: Pair, opened: Opener) -> Promoted:
    """Enters a process that uses the replica, as all do once it is promoted."""
    return lambda: opened(replicated.replica.url, **PLAIN)


@pytest.mark.parametrize("lag", [False, True], ids=["in step", "behind"])
async def test_killed_right_after_a_grant(lag: bool, opened: Opener, promoted: Promoted, replicated: Pair) -> None:
    """The promise, while grants come as fast as possible: every grant that was reported is on the replica.

    On one machine a replica hardly ever lags: in the second round it hears nothing of the last tenth of a second.
    Broken by answering before WAIT does.
    """
    locks = await opened(**{**HASTY, "replica_timeout": 3.0, "request_timeout": 6.0})
    granted: dict[str, Lease] = {}
    enough = asyncio.Event()

    async def acquire_all(task: int) -> None:
        number = 0
        while True:
            name = f"{task}.{number}"
            granted[name] = await locks.lock(name).acquire()
            number += 1
            if len(granted) > 20 * TASKS:
                enough.set()

    tasks = [asyncio.ensure_future(acquire_all(task)) for task in range(TASKS)]
    async with asyncio.timeout(20):
        await enough.wait()
    if lag:
        replicated.leave()
        await asyncio.sleep(0.1)
    replicated.master.kill()
    replicated.leave()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    with redis_cli.client(replicated.replica.url) as link:
        behind = Server(link)
        for name, lease in granted.items():
            assert behind.locked(name), name
            assert behind.state(name).pttl / 1000 > lease.remaining()
    there = await promoted()
    for lease in (granted["0.0"], granted[max(granted, key=lambda name: granted[name].fence)]):
        assert await there.lock(lease.name).try_acquire() is None
        assert lease.remaining() > 0
    for lease in granted.values():
        lease._give_up("dirty")


async def test_with_and_without(opened: Opener, promoted: Promoted, replicated: Pair) -> None:
    """The same failover twice at once: an unchecked lock gets two holders, a checked one none."""
    checked, unchecked = await opened(**{**HASTY, "request_timeout": 5.0}), await opened(**PLAIN, request_timeout=5.0)
    replicated.leave()  # the replica does not hear of what the master grants now
    first = await unchecked.lock("unchecked").acquire()
    with pytest.raises(BackendError, match="by 0 of 1 replicas"):
        await checked.lock("checked").acquire()
    replicated.master.kill()
    there = await promoted()
    async with there.lock("unchecked"):
        assert first.remaining() > 0  # two holders: what min_replicas is for
    async with there.lock("checked"):
        pass
    first._give_up("dirty")


async def test_no_one_enters_before_the_deadline_of_the_last_acknowledged_renewal(
    opened: Opener, promoted: Promoted, replicated: Pair
) -> None:
    """A master that is cut off from its replica, but alive: its holder stops in time."""
    locks = await opened(**{**HASTY, "ttl": 1.5})
    lease = await locks.lock(NAME).acquire()
    await lease.renew()
    replicated.leave()
    there = await promoted()
    async with asyncio.timeout(10), there.lock(NAME) as other:
        assert lease.lost
        assert other.fence > lease.fence
    lease._give_up("dirty")


async def test_demoted_while_a_grant_is_pending(opened: Opener, replicated: Pair) -> None:
    """The server ends the WAIT with UNBLOCKED, or is read-only when it is asked again: both are temporary."""
    locks = await opened()
    replicated.replica.freeze()
    acquiring = asyncio.ensure_future(locks.lock(NAME).acquire())
    await replicated.waited_for()
    replicated.link.replicaof(replicated.replica.host, str(replicated.replica.port))
    with pytest.raises(BackendError, match=r"UNBLOCKED|READONLY") as caught:
        await acquiring
    assert caught.value.transient
