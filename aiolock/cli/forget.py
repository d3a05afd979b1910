"""`aiolock forget`: lets a job of `run --once` run again within its window."""

from __future__ import annotations

import asyncio

import click

from ..recipes import Run, once
from .connection import Connection, connected
from .duration import in_words
from .exits import ExitCode, leave
from .output import json_option, print_json
from .plain import plain


@click.command(short_help="Let a job of run --once run again.")
@json_option
@connected
@click.argument("name")
def forget(connection: Connection, name: str, as_json: bool) -> None:
    """Forget the last run of NAME, so that the next `run --once` runs it, whatever became of the last.

    A run that is under way goes on, and nobody else begins one before it ends.

    Exit code 1 if no run is known, or its window is over.
    """
    run = asyncio.run(_forget(connection, name))
    if as_json:
        print_json({"name": name, "forgotten": run is not None, "status": run.status.value if run else None})
    elif run is not None:
        click.echo(f"forgot the run of {plain(name)}: {run.status.value}, begun {in_words(run.age)} ago by {run.by}")
    leave(ExitCode.OK if run else ExitCode.NO, "" if run or as_json else f"no run of {name!r} is known")


async def _forget(connection: Connection, name: str) -> Run[object] | None:
    async with connection.manager() as manager:
        job = once(manager, name, window=1.0, repeat="never")  # neither matters here
        run = await job.last()
        return run if run is not None and await job.forget() else None
