"""The first use of a name fixes its number of permits, even if you only look."""

from __future__ import annotations

import logging

import pytest

from aiolock import LockManager, Semaphore, SemaphoreInfo

from ..support import acl
from .places import TTL, Place, RedisPlace

NAME = "api"
GRACE_MS = 60_000


@pytest.fixture
def ten(locks: LockManager) -> Semaphore:
    return locks.semaphore(NAME, 10)


@pytest.fixture
def fifteen(others: LockManager) -> Semaphore:
    return others.semaphore(NAME, 15)


@pytest.mark.parametrize("look", ["available", "used", "info"])
async def test_a_look_fixes_it(ten: Semaphore, fifteen: Semaphore, look: str, caplog: pytest.LogCaptureFixture) -> None:
    """For clients that look and for clients that acquire; others get a warning in the log, once."""
    await getattr(ten, look)()
    assert await fifteen.available() == 10
    assert (await fifteen.info()).permits == 10
    async with fifteen.acquire(10):
        assert await ten.available() == 0
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text for text in told if "permits" in text] == [
        "semaphore 'api' has 10 permits, not the 15 it was made with here: the first use decides; "
        "change it with set_permits()"
    ]


async def test_what_a_look_leaves_expires(ten: Semaphore, place: Place) -> None:
    """Invariant 8: as soon as the state of a clean release expires."""
    await ten.info()
    (key,) = place.keys()
    assert 0 < place.side.pttl(key) <= TTL * 1000 + GRACE_MS
    place.side.expire(key)
    assert await ten.available() == 10


async def test_a_look_is_a_use_and_shortens_nothing(
    ten: Semaphore, locks: LockManager, others: LockManager, place: Place
) -> None:
    """If you look now and then, the number is kept; after set_permits() it is kept for a day."""
    short = others.semaphore(NAME, 10, ttl=0.5)
    await short.info()
    (key,) = place.keys()
    before = place.side.pttl(key)
    await locks.semaphore(NAME, 10, ttl=3600.0).info()
    assert place.side.pttl(key) > 3_600_000 > before
    await short.info()
    assert place.side.pttl(key) > 3_600_000
    await ten.set_permits(7)
    await ten.info()
    assert place.side.pttl(key) > 23 * 3_600_000


async def test_a_look_changes_nothing_that_exists(ten: Semaphore, fifteen: Semaphore) -> None:
    async with ten.acquire(4) as lease:
        for _ in range(2):
            assert await fifteen.info() == SemaphoreInfo(
                permits=10, available=6, used=4, holders=1, waiters=0, position=None
            )
        await lease.renew()
    async with ten as again:
        assert again.fence > lease.fence
        assert not again.abandoned


@pytest.mark.parametrize("command", ["hset", "pexpire", "pttl"])
async def test_a_user_with_read_rights_can_look_and_fixes_nothing(redis_place: RedisPlace, command: str) -> None:
    """A dashboard's user. Kept by info.lua: it tries its writes, PEXPIRE first, so that no key stays for ever."""
    user = "aiolock-looker"
    redis_place.link.execute_command(*acl.setuser(redis_place.link, user, *acl.EVERYTHING, f"-{command}"))
    try:
        async with LockManager(redis_place.url.replace("redis://", f"redis://{user}:secret@")) as looker:
            assert await looker.semaphore(NAME, 10).available() == 10
            assert redis_place.keys() == set()
            async with redis_place.manager() as locks:
                await locks.semaphore(NAME, 3).available()
            assert await looker.semaphore(NAME, 10).available() == 3
    finally:
        redis_place.link.execute_command("ACL", "DELUSER", user)
