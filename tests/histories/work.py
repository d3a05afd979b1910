"""What the tasks of a worker do with recipes: calls that join, and jobs that are reserved."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress

from aiolock.recipes import JoinFailed, current_lease, exclusive, reserve, reserved, unreserve

from .uses import Held, Uses

WITHIN = (0.3, 2.0)
"""Seconds that a job may wait, and that each of its attempts may last."""
JOB = "r"


class Failed(Exception):
    """A run raises this, with what it is called."""


class Again(Exception):
    """A job asks to be run again."""


class Work(Uses):
    """What one worker's tasks do: see `Uses`."""

    async def _joined(self) -> None:
        """Call a function that runs at most once at a time, for all that call it meanwhile."""
        patience, fails = self._patience(), self._dice.random() < 0.2
        least = self._dice.choice((0.0, 0.0, 0.05, 0.2))
        operation = self._journal.begin("join", "j", timeout=patience, use="joined")
        run = f"{os.getpid()}:{operation.number}"

        @exclusive(self._locks, key="j", busy="join", timeout=patience, hold_at_least=least)
        async def fn() -> str:
            lease = current_lease()
            assert lease is not None
            held = Held(operation, lease, least)
            try:
                await asyncio.sleep(self._stay())
            finally:
                held.leave()
            if fails:
                raise Failed(run)
            return run

        async with self._ending(operation):
            try:
                told, raised = await fn(), False
            except Failed as error:
                told, raised = str(error), True
            except JoinFailed as error:
                told, raised = error.message.rpartition(": ")[2], True
            operation.note("told", run=told, raised=raised)

    async def _jobs(self) -> None:
        """Work off a job; or enqueue one, unless there is one."""
        within = self._dice.choice(WITHIN)
        found = self._resource.receive(JOB)
        if found is None:
            await self._enqueue(within)
            return
        number, ticket = found
        if self._dice.random() < 0.1:
            operation = self._journal.begin("unreserve", JOB, ticket=number, use="unreserve")
            async with self._ending(operation):
                await unreserve(self._locks, ticket)
            return
        operation = self._journal.begin("job", JOB, ticket=number, within=within, use="jobs")

        @reserved(self._locks, within=within, retry=Again)
        async def job(ticket: str) -> None:
            operation.note("granted", fence=0)
            try:
                await asyncio.sleep(self._stay())
                if self._dice.random() < 0.3:
                    raise Again
                operation.note("finished")
            except (Again, asyncio.CancelledError):  # it is delivered again
                self._resource.send(JOB, number, ticket)
                raise
            finally:
                operation.note("left")

        async with self._ending(operation):
            with suppress(Again):
                await job(ticket)

    async def _enqueue(self, within: float) -> None:
        operation = self._journal.begin("reserve", JOB, within=within, use="reserve")
        async with self._ending(operation):
            ticket = await reserve(self._locks, JOB, within=within)
            if ticket is not None:
                number = f"{self._number}:{time.monotonic_ns()}"
                operation.note("reserved", ticket=number)
                self._resource.send(JOB, number, ticket)
