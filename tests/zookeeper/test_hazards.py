"""What ZooKeeper does to those who use it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient

from aiolock import BackendError, LockLost, LockManager, LossReason
from aiolock.backends.zookeeper.names import nodes_in
from tests.coordinator.conftest import session_of
from tests.support.severing import Way
from tests.support.silent_zookeeper import SilentZooKeeper
from tests.support.zookeeper import ZooKeeper, mode

TTL = 3.0
ENOUGH = 30.0


class Severed(ZooKeeper):
    """Three members; what the first one says to a leader goes a way that can be cut. A follower waits long for it."""

    def __init__(self) -> None:
        self.ways: dict[int, Way] = {}
        super().__init__(3, "syncLimit=40")

    def seen_by(self, at: int, number: int, ports: tuple[int, int]) -> tuple[int, int]:
        if at == 0 and number != 0:
            self.ways[number] = Way(ports[0])
            return self.ways[number].port, ports[1]
        return ports


@pytest.fixture
def severed() -> Iterator[Severed]:
    with ExitStack() as stack:
        made = stack.enter_context(Severed())
        for way in made.ways.values():
            stack.enter_context(way)
        yield made


async def test_a_follower_that_is_cut_off_from_its_leader(severed: Severed) -> None:
    """It answers pings, while the leader ends the session: the loss is told before the next one gets in. Kept by
    `ZooKeeperStore.keep`: `prove`.
    """
    follower, others = severed.members[0], severed.members[1:]
    assert mode(follower) == "follower"
    assert sum(way.used for way in severed.ways.values()) == 1
    url = f"zookeeper://127.0.0.1:{follower.port}"
    elsewhere = "zookeeper://" + ",".join(f"127.0.0.1:{member.port}" for member in others)
    async with LockManager(url, ttl=TTL) as locks, LockManager(elsewhere, ttl=TTL) as there:
        lease = await locks.lock("a").acquire()
        waiting = asyncio.create_task(there.lock("a").acquire())  # type: ignore[arg-type]
        await asyncio.sleep(TTL / 2)
        lease.ensure()
        for way in severed.ways.values():
            way.cut()
        async with asyncio.timeout(ENOUGH):
            assert await lease.wait_lost() is LossReason.UNREACHABLE
        assert not waiting.done()
        async with asyncio.timeout(ENOUGH):
            second = await waiting
        assert mode(follower) == "follower"  # it has noticed nothing yet
        assert second.fence > lease.fence
        assert second.abandoned
        await second.release()
        for way in severed.ways.values():
            way.mend()
        with pytest.raises(LockLost):
            await lease.release()


async def test_a_session_that_ends(server: ZooKeeper) -> None:
    """All it has is lost at once, and can be had again."""
    async with LockManager(server.url) as locks:
        lease = await locks.lock("a").acquire()
        session = session_of(locks)
        other = KazooClient(server.hosts, client_id=(session._id, session._password))
        await asyncio.to_thread(other.start, 20)
        await asyncio.to_thread(other.stop)
        other.close()
        async with asyncio.timeout(5):
            assert await lease.wait_lost() in (LossReason.DELETED, LossReason.TAKEN_OVER)
        with pytest.raises(LockLost):
            await lease.release()
        async with asyncio.timeout(5), locks.lock("a") as lease:
            assert lease.abandoned
            assert session_of(locks) is not session
        async with locks.lock("a") as lease:
            assert not lease.abandoned


async def test_a_waiter_whose_session_ends(server: ZooKeeper) -> None:
    """It takes another place."""
    async with LockManager(server.url) as locks, LockManager(server.url) as others:
        held = await others.lock("a").acquire()
        waiting = asyncio.create_task(locks.lock("a").acquire())  # type: ignore[arg-type]
        async with asyncio.timeout(5):
            while len(nodes_in(server.children("/aiolock/lock/a"))) < 2:  # noqa: ASYNC110 - nothing here sets an event
                await asyncio.sleep(0.01)
        session = session_of(locks)
        other = KazooClient(server.hosts, client_id=(session._id, session._password))
        await asyncio.to_thread(other.start, 20)
        await asyncio.to_thread(other.stop)
        other.close()
        async with asyncio.timeout(10):
            while session_of(locks) is session or len(nodes_in(server.children("/aiolock/lock/a"))) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await held.release()
        async with asyncio.timeout(5):
            await (await waiting).release()


async def test_sessions_that_are_too_short() -> None:
    """A lock that would not last for its ttl is refused when it is asked for. Kept by `Sessions.keeping`."""
    async with SilentZooKeeper() as server:
        locks = LockManager(f"zookeeper://127.0.0.1:{server.port}", ttl=30.0, request_timeout=1.0)
        await locks.open()
        try:
            with pytest.raises(
                BackendError, match=r"so a lock for 2\.66667 s, not for 30 s: ask for a shorter"
            ) as caught:
                await locks.lock("a").acquire()
            assert not caught.value.transient
        finally:
            await locks.aclose()


def test_the_numbers_of_places_begin_anew() -> None:
    """ZooKeeper counts the changes of a queue with 32 bits. Others' names have numbers, too. Kept by `nodes_in`."""
    numbers = [2147483646, 2147483647, -2147483648, -2147483647]
    names = [f"_c_me:1-lock-{number:010d}" for number in numbers]
    for shuffled in (names, names[::-1], names[2:] + names[:2]):
        assert [node.name for node in nodes_in(shuffled)] == names
    assert [node.owner for node in nodes_in(names)] == ["me:1"] * 4
    mixed = ["_c_0b-lock-0000000003", "_c_me:1-lock-0000000004", "0b__lock__0000000005", "x-0000000006", "x0000000007"]
    assert [node.name for node in nodes_in(mixed[::-1])] == mixed
    assert [node.owner for node in nodes_in(mixed)] == ["", "me:1", "", "", ""]
    assert [node.number for node in nodes_in(["_c_me:1-lock--000000001", "_c_me:1-lock-0000000000"])] == [-1, 0]
