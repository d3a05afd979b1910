"""Detach and resume, cancelled at every await: the lease stays held and is released, or it moves, or no one has it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

import pytest

from aiolock import NotOwned
from aiolock.recipes import reserve, reserved, unreserve
from tests.unit.world import TTL, Holder, lock_keys, settle

from .test_every_await import World, body, run_every_way


class Tickets:
    """What detach returned, if anything: it is resumed elsewhere at the end, and then released."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.text: str | None = None
        world.after.append(self.use)

    async def use(self) -> None:
        held = bool(lock_keys(self._world.backend))
        assert held is (self.text is not None), "held without a ticket, or the ticket is invalid"
        if self.text is not None:
            async with self._world.peer.resume(self.text):
                pass


async def test_detach() -> None:
    async def scenario(world: World) -> None:
        tickets = Tickets(world)
        lease = await world.locks.lock("a").acquire()
        try:
            tickets.text = await lease.detach()
        finally:
            await lease.release()

    assert await run_every_way(scenario) > 20


async def test_detach_in_a_block() -> None:
    async def scenario(world: World) -> None:
        tickets = Tickets(world)
        async with world.locks.lock("a") as lease:
            await body(world)
            tickets.text = await lease.detach()

    assert await run_every_way(scenario) > 20


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_detach_over_a_connection_that_dies(lost: Literal["request", "reply"]) -> None:
    async def scenario(world: World) -> None:
        tickets = Tickets(world)
        async with world.locks.lock("a") as lease:
            world.soon(3, lambda: world.backend.die(lost))
            tickets.text = await lease.detach()

    assert await run_every_way(scenario) > 20


async def test_detach_with_others_behind() -> None:
    """They wait for the server, and continue at the end."""

    async def scenario(world: World) -> None:
        tickets = Tickets(world)
        async with world.locks.lock("a") as lease:
            waiter = Holder(world.crew, world.locks.lock("a"))
            waiter.leave.set()  # it would be gone again at once, and the key with it
            world.after.append(waiter.end)
            await body(world)
            tickets.text = await lease.detach()

    assert await run_every_way(scenario) > 20


async def give(world: World) -> None:
    """Have another process give the scenario a ticket, and use the ticket at the end if it is still valid."""
    lease = await world.peer.lock("a").acquire()
    world.ticket = await lease.detach()

    async def use() -> None:
        held = bool(lock_keys(world.backend))
        try:
            async with world.peer.resume(world.ticket):
                assert held
        except NotOwned:
            assert not held, "held, and no one can release it"

    world.after.append(use)


async def test_resume() -> None:
    async def scenario(world: World) -> None:
        async with world.locks.resume(world.ticket):
            await body(world)

    assert await run_every_way(scenario, give) > 20


async def test_resume_without_a_block() -> None:
    async def scenario(world: World) -> None:
        lease = await world.locks.resume(world.ticket)
        await lease.release()

    assert await run_every_way(scenario, give) > 20


@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("turns", [1, 4])
async def test_resume_over_a_connection_that_dies(lost: Literal["request", "reply"], turns: int) -> None:
    async def scenario(world: World) -> None:
        world.soon(turns, lambda: world.backend.die(lost))
        async with world.locks.resume(world.ticket):
            await body(world)

    assert await run_every_way(scenario, give) > 20


async def test_resume_with_others_waiting() -> None:
    async def prepare(world: World) -> None:
        await give(world)
        waiters = [Holder(world.crew, world.locks.lock("a")) for _ in range(2)]
        for waiter in waiters:
            waiter.leave.set()
        await settle(world.backend)

        async def end() -> None:
            await settle(world.backend)
            assert all(waiter.task.done() for waiter in waiters), "a waiter is stuck"

        world.after.append(end)

    async def scenario(world: World) -> None:
        async with world.locks.resume(world.ticket):
            await body(world)

    assert await run_every_way(scenario, prepare) > 20


async def test_a_late_ticket() -> None:
    async def prepare(world: World) -> None:
        await give(world)
        await world.backend.clock.advance(TTL)

    async def scenario(world: World) -> None:
        with pytest.raises(NotOwned):
            await world.locks.resume(world.ticket)
        await asyncio.sleep(0)

    assert await run_every_way(scenario, prepare) > 20


async def test_reserve() -> None:
    """Whoever enqueues a job: it has the ticket, or nothing is reserved. Kept by the `except` of `reserve()`."""

    async def scenario(world: World) -> None:
        tickets = Tickets(world)
        tickets.text = await reserve(world.locks, "a", within=TTL)

    assert await run_every_way(scenario) > 10


async def test_a_job_under_a_reservation() -> None:
    """It has ended, or its ticket is as good as it was. Kept by `ended_by`."""

    async def scenario(world: World) -> None:
        tickets: list[str] = []

        async def use() -> None:
            if lock_keys(world.backend):
                assert await unreserve(world.peer, tickets[0])

        @reserved(world.locks, within=TTL)
        async def job(*, ticket: str) -> None:
            await body(world)

        world.after.append(use)
        ticket = await reserve(world.locks, "a", within=TTL)
        assert ticket is not None
        tickets.append(ticket)
        await job(ticket=ticket)
        assert not lock_keys(world.backend)

    assert await run_every_way(scenario) > 20


async def test_a_job_that_is_to_be_tried_again() -> None:
    """Its reservation stays for the next attempt, or the name is free. Kept by the `finally` of `wait_again`."""

    async def scenario(world: World) -> None:
        tickets: list[str] = []

        async def use() -> None:
            if lock_keys(world.backend):
                assert await unreserve(world.peer, tickets[0])

        @reserved(world.locks, within=TTL, retry=OSError)
        async def job(*, ticket: str) -> None:
            raise OSError

        world.after.append(use)
        ticket = await reserve(world.locks, "a", within=TTL)
        assert ticket is not None
        tickets.append(ticket)
        with suppress(OSError):
            await job(ticket=ticket)
        with suppress(OSError):
            await job(ticket=ticket)

    assert await run_every_way(scenario) > 20
