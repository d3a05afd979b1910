"""`aiolock top`: who holds, who waits, and how fast locks change hands, live."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from ..errors import AiolockError, ConfigurationError
from .connection import Connection, connected
from .exits import ExitCode, leave, message_of, of_signal
from .frame import Frame, Watched
from .text import HEADINGS, Duration, columns, in_words, json_option, print_json, row_of

if TYPE_CHECKING:
    from .screen import Screen

LEAST = 0.1
"""Seconds between two looks, at least."""
AGAIN = 0.2
"""Seconds after which a server that did not answer is asked again."""


@click.command(short_help="Watch locks live.")
@click.option("--interval", type=Duration(), default="1s", show_default=True, help="Between two looks.")
@click.option("--once", is_flag=True, help="Print once, after one interval, and exit.")
@json_option
@connected
@click.argument("pattern", default="*")
def top(connection: Connection, pattern: str, interval: float, once: bool, as_json: bool) -> None:
    """Show the names that match PATTERN and are held or waited for, until you press q. Most waiters come first.

    Arrows and page keys scroll, s sorts by another column, / shows only names and holders with a text.

    PER S is how many hand-offs a second were seen, by the fence; what happens between two looks is not.

    It reads only. It begins as ls does. Then it looks once in an interval at what it knows, in one request for 500
    names, and searches 25000 keys of the server for more.
    """
    interval = max(LEAST, interval)
    try:
        if once or as_json or not sys.stdout.isatty():
            frame = asyncio.run(_once(connection, pattern, interval))
            print_json(frame.facts()) if as_json else click.echo(_text(frame))
        else:
            leave(asyncio.run(_live(connection, pattern, interval)))
    except KeyboardInterrupt:
        leave(ExitCode.OK)


async def _once(connection: Connection, pattern: str, interval: float) -> Frame:
    async with connection.names() as names:
        await names.check(pattern)
        watched = Watched(names, pattern, interval)
        await watched.first_frame()
        await asyncio.sleep(interval)
        return await watched.next_frame()  # one look would see no hand-offs


def _text(frame: Frame) -> str:
    rows = [(*row_of(row.view), f"{row.hand_offs:.1f}" if row.hand_offs else "-") for row in frame.rows]
    oldest = "" if frame.oldest_wait is None else f", the oldest for {in_words(frame.oldest_wait)}"
    head = f"{frame.held} held, {frame.waiting} waiting{oldest}; {frame.hand_offs:.1f} hand-offs/s seen"
    return "\n".join(filter(None, (head, columns([(*HEADINGS, "PER S"), *rows]) if rows else "")))


async def _live(connection: Connection, pattern: str, interval: float) -> int:
    """Return the exit code."""
    from .screen import Screen

    screen = Screen()
    with screen.shown():
        watching = asyncio.ensure_future(_watch(connection, pattern, interval, screen))
        leaving = asyncio.ensure_future(screen.left.wait())
        try:  # a key works at once, even while a server does not answer
            await asyncio.wait((watching, leaving), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            for task in (watching, leaving):
                task.cancel()
            await asyncio.wait((watching, leaving))
    return ExitCode.OK if screen.ended_by is None else of_signal(screen.ended_by)


async def _watch(connection: Connection, pattern: str, interval: float, screen: Screen) -> None:
    while True:
        try:
            async with connection.names() as names:
                await names.check(pattern)
                watched = Watched(names, pattern, interval)
                screen.show(await watched.first_frame())
                while True:
                    await asyncio.sleep(interval)
                    screen.show(await watched.next_frame())
        except ConfigurationError:
            raise
        except AiolockError as error:  # it may come back, or another may become the master
            screen.trouble(message_of(error))
            await asyncio.sleep(AGAIN)
