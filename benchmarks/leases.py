"""Many leases, held and renewed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from redis.asyncio import Redis

from aiolock import Lease, LockManager

from .peers.aiolock import Lock
from .server_stats import ServerStats

PERIODS = 3
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Held:
    """What this many leases cost while they were held.

    Attributes:
        lost: how many were lost, as the client or the server sees it.
        commands: sent per period.
        cpu: seconds of the client per period.
        acquiring: seconds to acquire one of them, up to 500 at once.
    """

    lost: int
    commands: float
    cpu: float
    acquiring: float


async def hold(url: str, number: int, ttl: float, periods: int = PERIODS) -> Held:
    """Hold this many leases with this ttl for this many periods; a period is a third of the ttl."""
    async with LockManager(url, ttl=ttl) as locks, ServerStats(url, Lock.scripted) as stats:
        began = time.monotonic()
        leases: list[Lease] = []
        for at in range(0, number, AT_ONCE):
            some = range(at, min(at + AT_ONCE, number))
            leases += await asyncio.gather(*(locks.lock(f"held:{one}").acquire() for one in some))
        acquiring = (time.monotonic() - began) / number
        await stats.reset()
        used = time.process_time()
        await asyncio.sleep(periods * ttl / 3)
        cpu, commands = time.process_time() - used, await stats.commands()
        lost = max(sum(lease.lost for lease in leases), await _missing(url, leases))
        await _release(leases)
    return Held(lost, commands / periods, cpu / periods, acquiring)


async def _missing(url: str, leases: list[Lease]) -> int:
    async with Redis.from_url(url) as raw:
        keys = [f"aiolock:lock:{{{lease.name}}}" for lease in leases]
        return len(keys) - sum([await raw.exists(*keys[at : at + 1000]) for at in range(0, len(keys), 1000)])


async def _release(leases: list[Lease]) -> None:
    await asyncio.gather(*(lease.release() for lease in leases), return_exceptions=True)
