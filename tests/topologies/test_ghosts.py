"""Waiters that a failover brought back: they went while the new master no longer listened to the old one."""

from __future__ import annotations

import asyncio
import time

import pytest

from aiolock import LockManager
from tests.support import locks as kept
from tests.support import redis_cli

pytestmark = pytest.mark.takes_long

LIVENESS = 1.0
NAME = "order:42"


async def test_they_cost_the_others_no_time(redis_url: str) -> None:
    """Their process lives, so each is granted, though it was in and out long ago. Kept by `decline`."""
    options = {"ttl": 30.0, "liveness": LIVENESS}
    async with LockManager(redis_url, **options) as locks, LockManager(redis_url, **options) as others:
        with redis_cli.client(redis_url) as link:
            lease = await locks.lock(NAME).acquire()
            waiting = [asyncio.create_task(one.fair_lock(NAME).acquire()) for one in (locks, others)]
            async with asyncio.timeout(10.0):
                while len(kept.waiting(link)) < 2:  # noqa: ASYNC110 - the server announces nothing
                    await asyncio.sleep(0.01)
            gone = {f"{locks._runtime.binding.id}:f{number}": number for number in range(901, 904)}
            link.zadd(kept.KEYS.of("lock", NAME).of_lock[1], gone)
            began = time.monotonic()
            await lease.release()
            for task in waiting:
                await (await task).release()
            assert time.monotonic() - began < LIVENESS
