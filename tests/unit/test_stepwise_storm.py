"""Multi locks in several places, and plain ones, while connections die and tasks are cancelled, in a random order."""

from __future__ import annotations

import asyncio
import random

import pytest

from aiolock import AiolockError, Lease, LockManager
from aiolock.testing import MemoryBackend
from tests.support.scattered import Scattered

from .world import SlowBackend, assert_empty, lock_keys, settle, step_wall

NAMES = ["a", "a2", "b", "b2", "c"]


class Storm:
    """Two managers on three servers, of which one has another time.

    Args:
        seed: decides what happens, and when.
    """

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        first = MemoryBackend()
        self.servers = [first, MemoryBackend(clock=first.clock), MemoryBackend(clock=first.clock)]
        step_wall(self.dice.choice(self.servers), self.dice.choice([-50.0, 0.0, 100.0]))
        self.clock = first.clock
        self.links = [[SlowBackend(server, self.dice.randint(1, 4)) for server in self.servers] for _ in range(2)]
        self.managers = [LockManager(Scattered(links)) for links in self.links]
        self.inside: dict[str, Lease] = {}
        self.fences = dict.fromkeys(NAMES, 0)
        self.entered = 0

    async def work(self, manager: LockManager) -> None:
        for _ in range(4):
            names = self.dice.sample(NAMES, self.dice.randint(1, 4))
            lock = manager.lock(names[0]) if len(names) == 1 else manager.multi_lock(*names)
            try:
                async with lock.acquire(timeout=self.dice.choice([None, None, 3.0, 0.5])) as lease:
                    await self.enter(names, lease)
                    if self.dice.random() < 0.3:
                        async with lock as inner:
                            assert inner.depth == 2
            except AiolockError:
                pass  # a timeout, or a loss after an outage

    async def enter(self, names: list[str], lease: Lease) -> None:
        self.entered += 1
        for name in names:
            assert name not in self.inside or self.inside[name].lost
            assert lease.fence > self.fences[name]
            self.inside[name], self.fences[name] = lease, lease.fence
        try:
            for _ in range(self.dice.choice([0, 1, 5, 20])):
                await asyncio.sleep(0)
        finally:
            for name in names:
                if self.inside.get(name) is lease:
                    del self.inside[name]

    async def blow(self, tasks: list[asyncio.Task[None]]) -> None:
        while not all(task.done() for task in tasks):
            luck = self.dice.random()
            if luck < 0.01:
                self.dice.choice(self.dice.choice(self.links)).die(self.dice.choice(["request", "reply"]))
            elif luck < 0.02:
                self.dice.choice(tasks).cancel()
            elif luck < 0.05:
                await self.clock.advance(self.dice.choice([0.01, 0.05, 0.3, 1.0, 4.0]))
            await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(12))
async def test_a_storm(seed: int) -> None:
    """One at a time, rising fences, and nothing is left, in no process and on no server. Kept by Stepwise."""
    storm = Storm(seed)
    async with storm.managers[0], storm.managers[1]:
        tasks = [asyncio.create_task(storm.work(manager)) for manager in storm.managers for _ in range(4)]
        async with asyncio.timeout(30.0):
            await storm.blow(tasks)
        for task in tasks:
            assert task.cancelled() or task.exception() is None, task
        for _ in range(3):
            await settle(storm.servers[0])
            await storm.clock.advance(0.5)
        assert [lock_keys(server) for server in storm.servers] == [[]] * 3
        for manager in storm.managers:
            assert_empty(manager)
    assert storm.entered
