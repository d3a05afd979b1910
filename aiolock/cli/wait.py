"""`aiolock wait`: until a name is free."""

from __future__ import annotations

import asyncio

import click

from .connection import Connection, connected
from .duration import Duration
from .exits import ExitCode, errors_as_exits, leave
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

    It takes nothing: another one may hold it again at once. It reads only: at first every 50 ms, then once a second.

    Exit code 75 if the time is over.
    """
    with errors_as_exits():
        asyncio.run(_wait(connection, name, timeout, kind))


async def _wait(connection: Connection, name: str, timeout: float | None, kind: str) -> None:
    last = ""
    try:
        async with asyncio.timeout(timeout), connection.names() as names:
            pause = FIRST
            while True:
                views = await names.everything(name, [kind])
                taken = [view for view in views if view.taken]
                if not taken and (views or kind != "latch"):
                    return
                last = f": held by {holder_of(taken[0])}" if taken and taken[0].process else ""
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST)
    except TimeoutError:
        leave(ExitCode.BUSY, f"{name!r} is not free after {timeout:g} s{last}")
