"""How two old locks on Redis break: SETNX + EXPIRE, and SETNX + GETSET with timestamps.

    python docs/examples/old_locks.py

Each scene shows two clients that are both inside, or one that waits for ever. They need no bad luck, only a pause, a
crash or a clock that is wrong, at the place that the scene chooses.
"""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from aiolock.testing.server import RedisServer

# SETNX + EXPIRE.


async def acquire_with_expire(redis: Redis, key: str, ttl_ms: int, *, dies: bool = False) -> bool:
    """Take the lock, and then let it expire: two commands."""
    if not await redis.setnx(key, "locked"):
        return False
    if dies:
        return True  # here the process is killed: no EXPIRE, no release
    await redis.pexpire(key, ttl_ms)
    return True


async def a_crash_between_the_two(redis: Redis) -> str:
    """The lock has no expiry, and no owner: no one gets it any more."""
    await acquire_with_expire(redis, "a", 100, dies=True)
    await asyncio.sleep(0.3)
    again, left = await acquire_with_expire(redis, "a", 100), await redis.pttl("a")
    assert not again
    assert left == -1
    return f"0.3 s after a crash, with a ttl of 0.1 s: acquired again: {again}, time left: for ever"


async def a_release_of_anothers_lock(redis: Redis) -> str:
    """A holder that is late deletes the lock of the next one: now a third gets in beside that."""
    await acquire_with_expire(redis, "b", 50)
    await asyncio.sleep(0.1)  # the first one is late
    second = await acquire_with_expire(redis, "b", 10_000)
    await redis.delete("b")  # the first one releases
    third = await acquire_with_expire(redis, "b", 10_000)
    assert second
    assert third
    return f"a late holder releases: the second is inside: {second}, the third too: {third}"


# SETNX + GETSET with timestamps.


class Timestamps:
    """One client of the lock whose value is the time when it expires, by the client's own clock.

    Args:
        redis: a client.
        ahead: how many seconds its clock is ahead.
    """

    def __init__(self, redis: Redis, ahead: float = 0.0) -> None:
        self._redis, self._ahead = redis, ahead

    async def acquire(self, key: str, ttl: float) -> bool:
        """Take it if it is free, or if the time in it is over."""
        until = str(self.now() + ttl)
        if await self._redis.setnx(key, until):
            return True
        return await self.take_over(key, until) if await self.is_over(key) else False

    async def is_over(self, key: str) -> bool:
        """Whether the time in it is over."""
        return float(await self._redis.get(key) or 0) < self.now()

    async def take_over(self, key: str, until: str) -> bool:
        """Write the own time. Of several, only the one that reads the old time back has it."""
        return float(await self._redis.getset(key, until) or 0) < self.now()

    def now(self) -> float:
        return asyncio.get_running_loop().time() + self._ahead


async def a_clock_that_is_ahead(redis: Redis) -> str:
    """Takes a lock that was just acquired for 30 s."""
    right, ahead = Timestamps(redis), Timestamps(redis, ahead=31.0)
    first, second = await right.acquire("c", 30.0), await ahead.acquire("c", 30.0)
    assert first
    assert second
    return f"two clocks 31 s apart, ttl 30 s: the first is inside: {first}, the second too: {second}"


async def a_loser_that_writes(redis: Redis) -> str:
    """Who comes too late for the take-over has overwritten the winner's time: that holds for as long as *it* wanted."""
    one, other = Timestamps(redis), Timestamps(redis)
    await one.acquire("d", 0.05)
    await asyncio.sleep(0.1)  # that one died
    both_saw = await one.is_over("d") and await other.is_over("d")
    won = await one.take_over("d", str(one.now() + 0.2))
    lost = not await other.take_over("d", str(other.now() + 3600.0))
    left = float(await redis.get("d") or 0) - one.now()
    assert both_saw
    assert won
    assert lost
    assert left > 3000
    return (
        f"the winner took it for 0.2 s; the loser's write keeps it for {left:,.0f} s, held by no one if the winner dies"
    )


async def a_holder_that_does_not_know(redis: Redis) -> str:
    """A holder that is late deletes the next one's lock here, too: the value names no owner."""
    one, other, third = Timestamps(redis), Timestamps(redis), Timestamps(redis)
    await one.acquire("e", 0.05)
    await asyncio.sleep(0.1)
    second = await other.acquire("e", 30.0)
    await redis.delete("e")  # the first one releases
    inside = await third.acquire("e", 30.0)
    assert second
    assert inside
    return f"a late holder releases: the second is inside: {second}, the third too: {inside}"


SCENES = {
    "SETNX + EXPIRE": (a_crash_between_the_two, a_release_of_anothers_lock),
    "SETNX + GETSET": (a_clock_that_is_ahead, a_loser_that_writes, a_holder_that_does_not_know),
}


async def show(url: str) -> list[str]:
    """Play all scenes; return what happened in each."""
    async with Redis.from_url(url) as redis:
        return [f"{lock}: {await scene(redis)}" for lock, scenes in SCENES.items() for scene in scenes]


def main() -> None:
    """Play the scenes on a server of their own."""
    with RedisServer.start(owned=True) as server:
        print("\n".join(asyncio.run(show(server.url))))


if __name__ == "__main__":
    main()
