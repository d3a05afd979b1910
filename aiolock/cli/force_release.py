"""`aiolock force-release`: ends holds, whoever has them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import click

from ..manager import LockManager
from ..recipes import once
from ..scripts.view import NameView
from .connection import Connection, connected
from .exits import ExitCode, leave, say
from .looking import check_readable, describe, known
from .namespace import Found
from .text import HEADINGS, columns, json_option, plain, print_json, row_of

KINDS = ("lock", "rw", "semaphore", "latch", "once")
KEPT = ("latch", "once")
"""What is known of these can be ended though nobody holds them."""
GLOB = frozenset("*?[\\")
AT_ONCE = 100
"""How many requests are under way at a time."""


@click.command("force-release", short_help="End a hold, whoever has it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="lock",
    show_default=True,
    help="A latch is deleted, and the window of a run of once() ends; a run that is under way goes on.",
)
@json_option
@connected
@click.argument("name")
def force_release(connection: Connection, name: str, yes: bool, kind: str, as_json: bool) -> None:
    r"""End every hold on NAME, whoever has it. The holder is notified at once, and its block is cancelled.

    Until it has ended, two may be inside; a resource that checks fences refuses the old one. It shows who holds NAME,
    and asks. Without a terminal it needs --yes.

    NAME with *, ? or [ is a pattern, as for `ls`: aiolock force-release 'job:*'. It lists what matches, and asks once.
    A \ before such a character takes it as it is.

    Exit code 1 if nobody held it, or if you say no; 69 even if a pattern may match more, on a server that cannot be
    read.
    """
    if GLOB.isdisjoint(name):
        _one(connection, name, yes, kind, as_json)
    else:
        _all(connection, name, yes, kind, as_json)


def _one(connection: Connection, name: str, yes: bool, kind: str, as_json: bool) -> None:
    view = next(iter(asyncio.run(known(connection, name, [kind]))), None)
    if view is not None:
        check_readable(view)
    if view is None or not _can_end(view):
        if as_json:
            print_json({"name": name, "kind": kind, "released": False})
        leave(ExitCode.NO, f"{'nothing is known of' if kind in KEPT else 'nobody holds'} {kind} {name!r}")
    if not yes:
        _confirm("\n".join(describe(view)), "End this? Its holder may still be at work")
    (released,) = asyncio.run(_end(connection.manager(), [view]))
    if as_json:
        print_json(_facts(view, released))
    elif released:
        click.echo(_said(view))
    meanwhile = f"it was released meanwhile, and another one may have it: {name!r}"
    leave(ExitCode.OK if released else ExitCode.NO, "" if released else meanwhile)


def _all(connection: Connection, pattern: str, yes: bool, kind: str, as_json: bool) -> None:
    found = asyncio.run(_find(connection, pattern, kind))
    views = [view for view in found.views if _can_end(view)]
    if views and not yes:
        question = f"End these {len(views)}? Their holders may still be at work"
        _confirm(columns([HEADINGS, *map(row_of, views)]), question)
    ended = asyncio.run(_end(connection.manager(), views)) if views else []
    if as_json:
        print_json([_facts(view, released) for view, released in zip(views, ended, strict=True)])
    for view, released in () if as_json else zip(views, ended, strict=True):
        say_it = click.echo if released else say
        say_it(_said(view) if released else f"released meanwhile: {kind} {plain(view.name)}")
    for text in [f"there may be more: {text}" for text in found.unseen] + [view.refusal for view in found.views]:
        if text:
            say(text)
    nothing = "" if views or as_json else f"no {kind} that matches {pattern!r} is {'known' if kind in KEPT else 'held'}"
    leave(ExitCode.UNREACHABLE if found.failed else ExitCode.OK if any(ended) else ExitCode.NO, nothing)


async def _find(connection: Connection, pattern: str, kind: str) -> Found:
    async with connection.names() as names:
        return await names.find(pattern, kind)


def _can_end(view: NameView) -> bool:
    return not view.refusal and (view.taken or view.kind in KEPT)


def _facts(view: NameView, released: bool) -> dict[str, object]:
    return {"name": view.name, "kind": view.kind, "released": released}


def _said(view: NameView) -> str:
    return f"released {view.kind} {plain(view.name)}" + (f", fence {view.fence}" if view.fence else "")


def _confirm(shown: str, question: str) -> None:
    """Ask.

    Raises:
        SystemExit: the answer is no, or there is nobody to ask.
    """
    if not _someone_is_there():
        leave(ExitCode.USAGE, "there is no terminal to ask on: add --yes")
    click.echo(shown, err=True)
    if not click.confirm(question, err=True):
        leave(ExitCode.NO)


def _someone_is_there() -> bool:
    return sys.stdin.isatty()


async def _end(manager: LockManager, views: Sequence[NameView]) -> list[bool]:
    ended: list[bool] = []
    async with manager:
        for at in range(0, len(views), AT_ONCE):
            ended += await asyncio.gather(*(_end_one(manager, view) for view in views[at : at + AT_ONCE]))
    return ended


async def _end_one(manager: LockManager, view: NameView) -> bool:
    match view.kind:
        case "rw":
            return await manager.rw_lock(view.name).force_release()
        case "semaphore":
            return await manager.semaphore(view.name, max(1, view.capacity)).force_release()
        case "latch":
            return await manager.latch(view.name, max(1, view.capacity)).delete()
        case "once":
            return await once(manager, view.name, window=1.0, repeat="never").forget()  # neither matters here
    # Only the hold that was shown: while someone thinks about the answer, another may have come in.
    lock = manager.lock(view.name)
    return await lock._runtime.ask(lock._calls.force_release(view.fence), "force-releasing", again=False)
