"""`aiolock force-release`: ends a hold, whoever has it."""

from __future__ import annotations

import asyncio
import sys

import click

from ..manager import LockManager
from ..scripts.view import NameView
from .connection import Connection, connected
from .exits import ExitCode, leave
from .looking import check_readable, describe, known
from .text import json_option, plain, print_json

KINDS = ("lock", "rw", "semaphore")


@click.command("force-release", short_help="End a hold, whoever has it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--kind", type=click.Choice(KINDS), default="lock", show_default=True)
@json_option
@connected
@click.argument("name")
def force_release(connection: Connection, name: str, yes: bool, kind: str, as_json: bool) -> None:
    """End every hold on NAME, whoever has it. The holder is told at once, and its block is cancelled.

    Until it has ended, two may be inside; a resource that checks fences refuses the old one. It shows who holds NAME,
    and asks. Without a terminal it needs --yes.

    Exit code 1 if nobody held it, or if you say no.
    """
    view = next(iter(asyncio.run(known(connection, name, [kind]))), None)
    if view is not None:
        check_readable(view)
    if view is None or not view.taken:
        if as_json:
            print_json({"name": name, "kind": kind, "released": False})
        leave(ExitCode.NO, f"nobody holds {kind} {name!r}")
    if not yes:
        _confirm(view)
    released = asyncio.run(_end(connection.manager(), view))
    if as_json:
        print_json({"name": name, "kind": kind, "released": released})
    elif released:
        click.echo(f"released {kind} {plain(name)}, fence {view.fence}")
    meanwhile = f"it was released meanwhile, and another one may have it: {name!r}"
    leave(ExitCode.OK if released else ExitCode.NO, "" if released else meanwhile)


def _confirm(view: NameView) -> None:
    """Ask.

    Raises:
        SystemExit: the answer is no, or there is nobody to ask.
    """
    if not _someone_is_there():
        leave(ExitCode.USAGE, "there is no terminal to ask at: add --yes")
    click.echo("\n".join(describe(view)), err=True)
    if not click.confirm("End this? Its holder may still be at work", err=True):
        leave(ExitCode.NO)


def _someone_is_there() -> bool:
    return sys.stdin.isatty()


async def _end(manager: LockManager, view: NameView) -> bool:
    async with manager:
        match view.kind:
            case "rw":
                return await manager.rw_lock(view.name).force_release()
            case "semaphore":
                return await manager.semaphore(view.name, max(1, view.capacity)).force_release()
        # Only the hold that was shown: while someone thinks about the answer, another may have come in.
        lock = manager.lock(view.name)
        return await lock._runtime.ask(lock._calls.force_release(view.fence), "force-releasing", again=False)
