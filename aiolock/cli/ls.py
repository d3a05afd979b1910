"""`aiolock ls`: the names that are held, or waited for."""

from __future__ import annotations

import asyncio

import click

from ..scripts.inspections import INSPECTED_KINDS
from .connection import Connection, connected
from .exits import ExitCode, leave, say
from .namespace import Found
from .output import HEADINGS, columns, facts_of, json_option, print_json, row_of


@click.command(short_help="List names that are held or waited for.")
@click.option("--all", "everything", is_flag=True, help="Free names, too, that the server still remembers.")
@click.option("--kind", type=click.Choice(INSPECTED_KINDS), help="Only this kind.")
@json_option
@connected
@click.argument("pattern", default="*")
def ls(connection: Connection, pattern: str, everything: bool, kind: str | None, as_json: bool) -> None:
    """List the names that match PATTERN and are held or waited for: aiolock ls 'order:*'

    It reads only. A server scans all its keys for that, 1000 with each request, and never stands still.

    Exit code 1 if there are none. If a node of a cluster cannot be read, it lists what the others have, and the code is
    69.
    """
    found = asyncio.run(_find(connection, pattern, kind))
    shown = [view for view in found.views if everything or view.taken or view.waiting]
    if as_json:
        print_json([facts_of(view) for view in shown])
    elif shown:
        click.echo(columns([HEADINGS, *map(row_of, shown)]))
    for text in found.unseen:
        say(f"the list is not complete: {text}")
    leave(ExitCode.UNREACHABLE if found.failed else ExitCode.OK if shown else ExitCode.NO)


async def _find(connection: Connection, pattern: str, kind: str | None) -> Found:
    async with connection.names() as names:
        return await names.find(pattern, kind)
