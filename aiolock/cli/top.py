"""`aiolock top`: who holds, who waits, and how fast locks change hands, live."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from ..errors import AiolockError, ConfigurationError
from .connection import Connection, connected
from .duration import Duration, in_words
from .exits import ExitCode, leave, message_of, of_signal
from .frame import PAUSE, Frame, Watched
from .output import HEADINGS, columns, json_option, print_json, row_of

if TYPE_CHECKING:
    from .screen import Screen

LOOKS = 6
"""For one frame: fewer would see no hand-offs."""


@click.command(short_help="Watch locks live.")
@click.option("--interval", type=Duration(), default="1s", show_default=True, help="Between two pictures.")
@click.option("--once", is_flag=True, help="Print one picture, of one second, and leave.")
@json_option
@connected
@click.argument("pattern", default="*")
def top(connection: Connection, pattern: str, interval: float, once: bool, as_json: bool) -> None:
    """Show the names that match PATTERN and are held or waited for, until you press q. Most waiters come first.

    PER S is how many hand-offs a second were seen, by the fence; what happens between two looks is not.

    It reads only. Five times a second it looks at what it knows, in one request for 500 names, and searches 5000 keys
    of the server for more.
    """
    try:
        if once or as_json or not sys.stdout.isatty():
            frame = asyncio.run(_once(connection, pattern))
            print_json(frame.facts()) if as_json else click.echo(_text(frame))
        else:
            leave(asyncio.run(_live(connection, pattern, interval)))
    except KeyboardInterrupt:
        leave(ExitCode.OK)


async def _once(connection: Connection, pattern: str) -> Frame:
    async with connection.names() as names:
        await names.check(pattern)
        watched = Watched(names, pattern)
        for _ in range(LOOKS - 1):
            await watched.next_frame()
            await asyncio.sleep(PAUSE)
        return await watched.next_frame()


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
        try:  # a key works at once, also while a server does not answer
            await asyncio.wait((watching, leaving), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            for task in (watching, leaving):
                task.cancel()
            await asyncio.wait((watching, leaving))
    return ExitCode.OK if screen.ended_by is None else of_signal(screen.ended_by)


async def _watch(connection: Connection, pattern: str, interval: float, screen: Screen) -> None:
    frame, loop = None, asyncio.get_running_loop()
    screen.show(None)
    while True:
        try:
            async with connection.names() as names:
                await names.check(pattern)
                watched, due = Watched(names, pattern), loop.time()
                while True:
                    frame = await watched.next_frame()
                    if loop.time() >= due:
                        screen.show(frame)
                        due = loop.time() + interval
                    await asyncio.sleep(PAUSE)
        except ConfigurationError:
            raise
        except AiolockError as error:  # it may come back, or another may become the master
            screen.show(frame, message_of(error))
            await asyncio.sleep(PAUSE)
