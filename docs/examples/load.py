"""The load: many buyers at once over HTTP, and the work it makes for Redis."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from redis.asyncio import Redis
from workers import Worker, browser


@dataclass(eq=False)
class Rush:
    """Many buyers at once, spread evenly over workers and skus.

    Attributes:
        answers: number of buyers by HTTP status; 200: bought an item, 409: sold out.
        failures: what all other buyers were told.
        waits: seconds that each successful buyer waited for the lock.
        seconds: how long it took to serve all buyers.
    """

    answers: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    seconds: float = 0.0

    async def run(
        self, workers: Sequence[Worker], skus: Sequence[str], *, buyers: int, at_once: int, tick: Callable[[int], None]
    ) -> None:
        """Let the buyers buy; `tick` gets the number served so far."""
        queue = iter(range(buyers))

        async def serve() -> None:
            async with browser() as http:  # a client each: httpx's pool gets slower with each connection in it
                for number in queue:  # shared: each number is served once
                    worker, sku = workers[number % len(workers)], skus[number // len(workers) % len(skus)]
                    answer = await worker.buy(sku, f"buyer {number}", http=http)
                    self.answers[answer.status] += 1
                    if answer.status == 200:
                        self.waits.append(answer.body["waited"])
                    elif answer.status != 409:
                        self.failures[f"{answer.status} {answer.body.get('detail')}"] += 1
                    tick(self.answers.total())

        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(serve())
        self.seconds = time.monotonic() - started

    def wait(self, share: float) -> float:
        """Return the wait, in seconds, that this share of the buyers did not exceed."""
        return sorted(self.waits)[min(len(self.waits) - 1, int(share * len(self.waits)))] if self.waits else 0.0


class Meter:
    """Counts what all clients but the demo itself make a Redis server do.

    Args:
        redis: the demo's client.
    """

    OWN = frozenset({"info", "client|list", "client|id"})
    SENT = frozenset({"evalsha", "eval", "script|load", "subscribe", "unsubscribe", "ping"})

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._before: Counter[str] = Counter()
        self.connections = 0  # the most seen at one time

    async def start(self) -> None:
        """Count from now on."""
        self._before = await self._calls()

    async def watch(self, rush: asyncio.Task[Rush]) -> None:
        """Count the connections ten times a second until the rush is over."""
        own = await self._redis.client_id()
        while not rush.done():
            others = [client for client in await self._redis.client_list() if int(client["id"]) != own]
            self.connections = max(self.connections, len(others))
            await asyncio.sleep(0.1)

    async def calls(self) -> Counter[str]:
        """Return how often each command ran since the start."""
        return await self._calls() - self._before

    async def _calls(self) -> Counter[str]:
        stats = await self._redis.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): int(stat["calls"]) for name, stat in stats.items()}
        return Counter({name: count for name, count in calls.items() if name not in self.OWN})
