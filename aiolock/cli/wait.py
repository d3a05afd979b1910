"""`aiolock wait`: until a name is free."""

from __future__ import annotations

import asyncio

import click

from .connection import Connection, connected
from .duration import Duration
from .exits import ExitCode, leave
from .namespace import Namespace
from .output import holder_of

FIRST, LONGEST = 0.05, 1.0
"""Seconds between two looks: at first, and at most."""


@click.command(short_help="Wait until a name is free.")
@click.option("--timeout", type=Duration(), help="How long at most.  [default: without limit]")
@click.option("--kind", type=click.Choice(["lock", "rw", "semaphore", "latch"]), default="lock", show_default=True)
@connected
@click.argument("name")
def wait(connection: Connection, name: str, timeout: float | None, kind: str) -> None:
    """Wait until nobody holds NAME; of a latch, until it is open.

    It takes nothing: another one may hold it again at once. It reads only: at first every 50 ms, then once a second. It
    looks at least once, whatever the timeout.

    Exit code 75 if the time is over.
    """
    asyncio.run(_wait(connection, name, timeout, kind))


async def _wait(connection: Connection, name: str, timeout: float | None, kind: str) -> None:
    loop = asyncio.get_running_loop()
    until = None if timeout is None else loop.time() + timeout
    pause = FIRST
    async with connection.names() as names:
        free, last = await _look(names, name, kind)  # not to have asked is no answer, however short the time is
        try:
            async with asyncio.timeout_at(until):
                while not free:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST)
                    free, last = await _look(names, name, kind)
        except TimeoutError:
            leave(ExitCode.BUSY, f"{name!r} is not free after {timeout:g} s{last}")


async def _look(names: Namespace, name: str, kind: str) -> tuple[bool, str]:
    """Whether it is free, and otherwise who has it, as the end of a sentence."""
    views = await names.everything(name, [kind])
    taken = [view for view in views if view.taken]
    if not taken and (views or kind != "latch"):
        return True, ""
    return False, f": held by {holder_of(taken[0])}" if taken and taken[0].process else ""
