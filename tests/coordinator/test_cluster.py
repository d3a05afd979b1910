"""Three members, of which one fails or is cut off; and one that fails altogether."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from aiolock import BackendError, LockLost, LockManager, LossReason
from aiolock.events import Disconnected, Event, Reconnected
from tests.support.etcd import Etcd

from .conftest import Kind, Server, link_of, used_by

TTL = 6.0
LONG = 15.0
"""Longer than it takes until a leader that stands still is missed, and another one leads, on a machine that is busy."""
ENOUGH = 30.0


@pytest.fixture
def three(kind: Kind) -> Iterator[Server]:
    with kind(3) as made:
        yield made


@pytest.fixture
async def locks(three: Server) -> AsyncIterator[LockManager]:
    async with LockManager(three.url, ttl=TTL) as made:
        yield made


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(ENOUGH):
        while not check():  # noqa: ASYNC110 - nothing here sets an event
            await asyncio.sleep(0.01)


def leave_to_others(three: Server, used: int) -> None:
    """This member, which managers use, follows another."""
    first, other = three.members[used], three.members[used - 1]
    if isinstance(three, Etcd):
        if three.leader() is first:
            target = three.members[used - 1].ask("maintenance/status")["header"]["member_id"]
            three.members[used].ask("maintenance/transfer-leadership", {"targetID": target})
    elif three.leader() is first:
        first.kill()
        first.start()
    assert other is not first
    end = time.monotonic() + ENOUGH
    while three.leader() in (None, first) and time.monotonic() < end:
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("who", ["used", "leader"])
async def test_a_member_fails(three: Server, locks: LockManager, how: str, who: str) -> None:
    """The lease lives on, and a waiter gets in. Kept by `Rotation`, etcd's `Link._scope`, and `Session._tick`."""
    failing = used_by(locks, three) if who == "used" else three.leader()
    assert failing is not None
    async with LockManager(three.url, ttl=LONG) as others, locks.lock("a", ttl=LONG) as lease:
        waiting = asyncio.create_task(others.lock("a").acquire())  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        if how == "killed":
            failing.kill()
        else:
            failing.signal(signal.SIGSTOP)
        deadline = lease._hold.deadline
        async with asyncio.timeout(ENOUGH):
            while lease._hold.deadline < deadline + LONG / 4:
                lease.ensure()
                await asyncio.sleep(0.05)
        assert not waiting.done()
        await lease.release()
        async with asyncio.timeout(ENOUGH):
            await (await waiting).release()


async def test_a_member_without_the_others_renews_nothing(three: Server, locks: LockManager) -> None:
    """It cannot reach its leader: whoever uses it must not think that its lease goes on. Nor is anybody let in."""
    leave_to_others(three, three.members.index(used_by(locks, three)))  # type: ignore[arg-type]
    await until(lambda: locks._runtime.backend.unreachable is None)
    loop = asyncio.get_running_loop()
    lease = await locks.lock("a", ttl=3.0).acquire()
    await until(lambda: link_of(locks, three) is not None)
    others = [member for member in three.members if member is not used_by(locks, three)]
    stopped = loop.time()
    for member in others:
        member.signal(signal.SIGSTOP)
    async with asyncio.timeout(ENOUGH):
        assert await lease.wait_lost() is LossReason.UNREACHABLE
    assert loop.time() - stopped < 3.0
    with pytest.raises(LockLost):
        await lease.release()
    with pytest.raises(BackendError):
        await locks.lock("b").acquire(timeout=0)
    for member in others:
        member.signal(signal.SIGCONT)
    await until(lambda: locks._runtime.backend.unreachable is None)
    async with asyncio.timeout(ENOUGH), locks.lock("a"):
        pass


async def test_the_server_comes_back(kind: Kind) -> None:
    """A lease whose time is not over lives on; a waiter waits on. Those who look are told."""
    seen: list[Event] = []
    with kind() as server:
        here = LockManager(server.url, ttl=20.0, observer=seen.append)
        async with here, LockManager(server.url, ttl=20.0) as there:
            lease = await here.lock("a").acquire()
            waiting = asyncio.create_task(there.lock("a").acquire())  # type: ignore[arg-type]
            await asyncio.sleep(0.1)
            server.members[0].kill()
            with pytest.raises(BackendError, match="got no answer"):
                await here.lock("b").acquire()
            server.members[0].start()
            await until(lambda: any(isinstance(event, Reconnected) for event in seen))
            await lease.renew()
            assert not waiting.done()
            await lease.release()
            async with asyncio.timeout(ENOUGH):
                await (await waiting).release()
    told = [type(event) for event in seen if isinstance(event, Disconnected | Reconnected)]
    assert told == [Disconnected, Reconnected]


async def test_all_is_closed_while_the_server_is_stopped(kind: Kind) -> None:
    """Closing takes no longer than it may."""
    with kind() as server:
        async with LockManager(server.url, request_timeout=1.0) as locks:
            lease = await locks.lock("a").acquire()
            server.members[0].signal(signal.SIGSTOP)
            async with asyncio.timeout(ENOUGH):
                await lease.release()
        with pytest.raises(BackendError, match="gave no answer"):
            async with LockManager(server.url, request_timeout=0.5):
                pass
