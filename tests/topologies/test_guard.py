"""Guarded writes in a cluster: with the lock's tag, they are where the lock is."""

from __future__ import annotations

import pytest
import redis.asyncio

from aiolock import ConfigurationError, LockManager
from aiolock.recipes import guard
from tests.support.cluster import Cluster

pytestmark = pytest.mark.takes_long


async def test_in_a_cluster(masters_only: Cluster) -> None:
    async with (
        LockManager.cluster(masters_only.urls) as locks,
        redis.asyncio.RedisCluster.from_url(masters_only.urls[0]) as client,
        locks.lock("a}b") as lease,
    ):
        writes = guard(lease, client)
        await writes.write(("SET", "{a%7Db}:state", "paid"), ("INCRBY", b"{a%7Db}:n", 1))
        assert await client.get("{a%7Db}:state") == b"paid"
        with pytest.raises(ConfigurationError, match=r"begin it with '\{a%7Db\}'"):
            await writes.set("elsewhere", 1)
        one, other = (masters_only.names_on(master)[0] for master in masters_only.masters[:2])
        async with locks.multi_lock(one, other) as both:
            with pytest.raises(ConfigurationError, match="slot"):
                await guard(both, client).set(f"{{{one}}}", 1)
