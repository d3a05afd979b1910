"""A standby takes the place of a primary that is gone: all that anybody was told is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from aiolock import AcquireTimeout, LockLost, LockManager
from tests.databases.database import PATIENT
from tests.databases.test_server import until_it_answers, until_it_is_lost
from tests.support.standby import Replicated

from .database import PostgresDatabase


@pytest.fixture
def pair() -> Iterator[Replicated]:
    pair = Replicated()
    yield pair
    pair.close()


@pytest.mark.slow
async def test_a_synchronous_standby_is_promoted(pair: Replicated) -> None:
    """A hold that was granted lives and excludes, a short one is lost in time, a waiter goes on, and fences rise. Kept
    by the server, and by dial(): `target_session_attrs`.
    """
    async with LockManager(pair.url, **PATIENT) as one, LockManager(pair.url, ttl=60) as two:
        long = await one.lock("long").acquire()
        waiter = asyncio.create_task(two.lock("long").acquire())
        await PostgresDatabase(pair.url).until_waiting("long")
        last = await one.lock("last").acquire()
        short = await one.lock("short", ttl=1.0).acquire()
        began = time.monotonic()
        await asyncio.to_thread(pair.crash)
        await until_it_is_lost(short)
        assert time.monotonic() - began < 5
        await asyncio.to_thread(pair.promote)
        with pytest.raises(LockLost):
            await short.release()
        await until_it_answers(one)
        await until_it_answers(two)
        with pytest.raises(AcquireTimeout):
            await two.lock("last").acquire(timeout=0)
        async with two.lock("short").acquire(timeout=10) as next_one:
            assert next_one.fence > short.fence
        assert not long.lost
        await last.release()
        await long.release()
        lease = await asyncio.wait_for(waiter, 30)
        assert lease.fence > long.fence
        await lease.release()
