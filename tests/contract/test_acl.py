"""The server denies a user a command: the error is clear, and nothing stays held."""

# ruff: noqa: PT012 - what raises is the whole guarded block

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest

from aiolock import BackendError, Lock, LockLost, LockManager

from ..support import acl
from .places import RedisPlace, keys_of, renew_now, renewed, until

NAME = "order:42"
USER = "aiolock-test"
ENOUGH = 5.0

Deny = Callable[[str], LockManager]


@pytest.fixture
def place(redis_place: RedisPlace) -> RedisPlace:
    return redis_place


@pytest.fixture
def deny(place: RedisPlace) -> Iterator[Deny]:
    """Return a manager for a user with all rights, changed by these rules."""

    def manager(*rules: str, **options: float) -> LockManager:
        place.link.execute_command(*acl.setuser(place.link, USER, *acl.EVERYTHING, *" ".join(rules).split()))
        url = place.url.replace("redis://", f"redis://{USER}:secret@")
        return LockManager(url, **{"ttl": 1.0, "request_timeout": 2.0, **options})  # type: ignore[arg-type]

    yield manager
    place.link.execute_command("ACL", "DELUSER", USER)


async def _enter(lock: Lock) -> int:
    async with lock as lease:
        return lease.fence


@pytest.mark.parametrize("command", ["exists", "hmget", "time", "hset", "pexpire"])
async def test_what_acquire_needs(deny: Deny, there: Lock, place: RedisPlace, command: str) -> None:
    """H11: a denial strikes before the lock exists. Kept by acquire_free.lua: what PEXPIRE would keep is taken back."""
    async with deny(f"-{command}") as locks:
        for _ in range(2):  # the first attempt leaves no harm for the second
            with pytest.raises(BackendError, match=rf"(?i){command}.*NOPERM|NOPERM.*{command}") as caught:
                await locks.lock(NAME).acquire(timeout=1.0)
            assert NAME in str(caught.value)
            assert "ACL" in str(caught.value)
            assert caught.value.name == NAME
            assert not caught.value.transient
            assert caught.value.__cause__ is not None
        assert place.gone(NAME)
        async with asyncio.timeout(ENOUGH):
            assert await _enter(there)
        assert not locks._runtime.gates


async def test_what_waiting_needs(deny: Deny, there: Lock, place: RedisPlace) -> None:
    """Only a held lock needs this command; whatever was queued all the same leaves the queue."""
    async with deny("-zadd") as locks:
        assert await _enter(locks.lock(NAME))
        async with there:
            assert await locks.lock(NAME).try_acquire() is None
            with pytest.raises(BackendError, match="ACL"):
                await locks.lock(NAME).acquire(timeout=1.0)
            await until(lambda: not place.waiting(NAME))
        assert not locks._runtime.gates


async def test_what_the_end_of_a_turn_needs(deny: Deny, place: RedisPlace, there: Lock) -> None:
    """The name goes to the next in line; a process that cannot be queued behind it is told.

    Kept by _Transfer._settle, and transfer.lua: the grant is written before the process is queued anew.
    """
    async with deny("-zadd", ttl=30.0) as locks:
        async with locks.lock(NAME):
            waiters = [asyncio.create_task(_enter(locks.lock(NAME))) for _ in range(3)]
            behind = asyncio.create_task(there.acquire())
            await until(lambda: place.listeners(NAME))
        async with asyncio.timeout(ENOUGH):
            lease = await behind
            for error in await asyncio.gather(*waiters, return_exceptions=True):
                assert isinstance(error, BackendError)
                assert "ACL" in str(error)
            await lease.release()
            assert await _enter(locks.lock(NAME))
        assert not locks._runtime.gates


async def test_what_release_needs(deny: Deny, there: Lock, caplog: pytest.LogCaptureFixture) -> None:
    """The user is told at the block's end, and the lock expires, because it is not renewed."""
    async with deny("-zrange") as locks:
        with pytest.raises(BackendError, match="ACL") as caught:
            async with locks.lock(NAME, ttl=0.5):
                pass
        assert NAME in str(caught.value)
        assert caught.value.name == NAME
        async with asyncio.timeout(ENOUGH), there as lease:
            assert lease.abandoned
        with pytest.raises(KeyError, match="mine"):
            async with locks.lock(NAME, ttl=0.5):
                raise KeyError("mine")
        assert "was not released" in caplog.text
        assert not locks._runtime.gates


async def test_publish(deny: Deny, place: RedisPlace) -> None:
    """A waiter that is granted the lock gets no message, and finds out by its next heartbeat.

    A message that cannot be sent counts as heard: the waiter is not passed over. Kept by settle.lua: `redis.pcall(…)`.
    """
    async with deny("-publish") as locks, place.manager() as others, place.manager() as third:
        async with locks.lock(NAME, ttl=30.0) as lease:
            first = asyncio.create_task(_enter(others.lock(NAME)))
            await until(lambda: place.listeners(NAME) == 1)
            second = asyncio.create_task(_enter(third.lock(NAME)))
            await until(lambda: place.listeners(NAME) == 2)
        assert place.state(NAME).manager == others._runtime.binding.id
        async with asyncio.timeout(ENOUGH):
            assert await second > await first > lease.fence
        # A hand-off inside the process needs no message: a release is a transfer, or the next task asks.
        waiters = [asyncio.create_task(_enter(locks.lock(NAME, ttl=30.0))) for _ in range(5)]
        async with asyncio.timeout(ENOUGH):
            await asyncio.gather(*waiters)


async def test_force_release_without_publish_is_found_by_renewal(deny: Deny, there: Lock) -> None:
    async with deny("-publish") as locks:
        with pytest.raises(LockLost):
            async with asyncio.timeout(ENOUGH), there as lease:
                assert await locks.lock(NAME).force_release()
                renew_now(lease)
                await asyncio.sleep(60)


async def test_subscribe(deny: Deny, place: RedisPlace, there: Lock, caplog: pytest.LogCaptureFixture) -> None:
    """A manager that cannot get messages asks by itself, and says so once. Kept by Waiting.fall_back."""
    async with deny("-subscribe", recheck=60.0, ttl=30.0) as locks:
        for _ in range(2):
            async with there:
                waiters = [asyncio.create_task(_enter(locks.lock(NAME))) for _ in range(3)]
                await asyncio.sleep(0.05)
            async with asyncio.timeout(ENOUGH):
                assert len(set(await asyncio.gather(*waiters))) == 3
    (warning,) = _polling(caplog)
    assert warning.levelno == logging.WARNING
    assert "ACL" in warning.getMessage()


async def test_without_the_right_to_subscribe_you_keep_your_place(
    deny: Deny, place: RedisPlace, there: Lock, locks: LockManager
) -> None:
    """You ask with heartbeats, for longer than one of them lasts, and no one overtakes you.

    Kept by QueueEntry.schedule: `runtime.waiting.pause`, and settle.lua: `counted == ''`.
    """
    async with deny("-subscribe", liveness=0.6, ttl=30.0) as deaf, place.manager(ttl=30.0) as third:
        holder = await there.acquire()
        patient = asyncio.create_task(_enter(deaf.lock(NAME)))
        await until(lambda: place.listeners(NAME) == 1)
        behind = asyncio.create_task(_enter(third.lock(NAME)))
        await until(lambda: place.listeners(NAME) == 2)
        waiting = place.side.scores(keys_of(NAME).of_lock[1])
        for _ in range(3):  # a newcomer's attempt would clear away dead waiters
            await asyncio.sleep(0.4)
            assert await locks.lock(NAME).try_acquire() is None
        assert place.side.scores(keys_of(NAME).of_lock[1]) == waiting
        await holder.release()
        assert place.state(NAME).manager == deaf._runtime.binding.id
        async with asyncio.timeout(ENOUGH):
            assert holder.fence < await patient < await behind


def _polling(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if "waiting=Poll()" in record.getMessage()]


async def test_the_channels_of_names(
    deny: Deny, place: RedisPlace, there: Lock, others: LockManager, caplog: pytest.LogCaptureFixture
) -> None:
    """A lock needs none of them. C6: for a latch, a refused SUBSCRIBE is an error in the order of replies.

    Kept by replies.Confirmation: it keeps a place.
    """
    async with deny("resetchannels &aiolock:manager:*", ttl=30.0, recheck=60.0) as locks:
        async with there:
            waiter = asyncio.create_task(_enter(locks.lock(NAME)))
            await until(lambda: place.listeners(NAME))
        async with asyncio.timeout(ENOUGH):
            assert await waiter
        assert not _polling(caplog)
        async with there:
            busy = asyncio.gather(*(_enter(locks.lock(NAME)) for _ in range(5)))
            opened = asyncio.create_task(locks.latch(NAME, 1).wait())
            free = asyncio.gather(*(_enter(locks.lock(f"n{i}")) for i in range(20)))
            async with asyncio.timeout(ENOUGH):
                assert len(set(await free)) == 20
                await until(lambda: _polling(caplog))
        await others.latch(NAME, 1).count_down()
        async with asyncio.timeout(ENOUGH):
            assert len(set(await busy)) == 5
            await opened
        assert place.listeners(NAME) == 0
    assert len(_polling(caplog)) == 1


async def test_subscribing_is_denied_later(
    deny: Deny, place: RedisPlace, there: Lock, caplog: pytest.LogCaptureFixture
) -> None:
    """The rules change while a task waits. Kept by Channels.refuse and ReleaseListener._on_message."""
    acl.need_channels(place.link)
    async with deny("", ttl=30.0, recheck=60.0) as locks:
        async with there:
            waiter = asyncio.create_task(_enter(locks.lock(NAME)))
            await until(lambda: place.listeners(NAME))
            fewer = acl.setuser(place.link, USER, "resetchannels")
            place.link.execute_command(*fewer)  # the server closes the connection
            if place.listeners(NAME):  # KeyDB does not
                place.link.client_kill_filter(user=USER)
            await until(lambda: _polling(caplog))
        async with asyncio.timeout(ENOUGH):
            assert await waiter
    assert len(_polling(caplog)) == 1


async def test_what_renewal_needs_spoils_only_that_key(deny: Deny, place: RedisPlace) -> None:
    """C5. A key that the user may not touch: a call that fails as a whole is split. Kept by Renewals._request:
    `middle`.
    """
    async with deny("", ttl=30.0) as locks:
        leases = [await locks.lock(f"n{i}").acquire() for i in range(4)]
        patterns = " ".join(f"~{keys_of(f'n{i}').lock}*" for i in (0, 1, 3))
        place.link.execute_command("ACL", "SETUSER", USER, "resetkeys", *patterns.split())
        bad, good = leases.pop(2), leases
        before = bad._hold.expiry
        renew_now(bad)
        await renewed(*good)
        assert bad._hold.expiry == before
        assert not bad.lost  # until its deadline
        for lease in good:
            await lease.release()
        with pytest.raises(BackendError, match="n2"):
            await bad.release()


@pytest.mark.parametrize("command", ["zcard", "zrange"])
async def test_what_looking_and_forcing_need(deny: Deny, there: Lock, command: str) -> None:
    async with deny(f"-{command}") as locks, there:
        lock = locks.lock(NAME)
        with pytest.raises(BackendError, match="ACL") as caught:
            await (lock.info() if command == "zcard" else lock.force_release())
        assert NAME in str(caught.value)
        assert await there.is_locked()


@pytest.mark.parametrize("command", ["client", "info", "ping", "unsubscribe"])
async def test_what_is_only_nice_to_have(deny: Deny, there: Lock, place: RedisPlace, command: str) -> None:
    async with deny(f"-{command}", request_timeout=0.5) as locks:
        async with locks.lock(NAME, ttl=30.0) as lease:
            waiter = asyncio.create_task(_enter(there))
            await until(lambda: place.listeners(NAME))
            await asyncio.sleep(0.6)  # several heartbeats
        assert await waiter > lease.fence
        assert await _enter(locks.lock(NAME))


async def test_client_kill_denied_is_said_once(deny: Deny, place: RedisPlace, caplog: pytest.LogCaptureFixture) -> None:
    async with deny("-client|kill") as locks:
        backend = locks._runtime.backend
        for _ in range(3):
            opened = backend._dialer.opened  # type: ignore[attr-defined]
            ids = [c["id"] for c in place.link.client_list() if c["user"] == USER]
            for number in ids:
                place.link.client_kill_filter(_id=number)
            await until(lambda opened=opened: backend._dialer.opened > opened)  # type: ignore[attr-defined]
            assert await _enter(locks.lock(NAME))
    complaints = [r for r in caplog.records if "CLIENT KILL was refused" in r.message]
    assert len(complaints) == 1
    assert complaints[0].levelno == logging.WARNING


async def test_a_wrong_password(place: RedisPlace, deny: Deny) -> None:
    deny("")
    url = place.url.replace("redis://", f"redis://{USER}:hunter2@")
    with pytest.raises(BackendError, match="password") as caught:
        async with LockManager(url):
            pytest.fail("entered")
    assert not caught.value.transient
    assert "hunter2" not in str(caught.value)
