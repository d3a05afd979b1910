"""`aiolock top`: who holds, who waits, and how fast locks change hands, live."""

from __future__ import annotations

import asyncio
import sys

import click

from ..errors import AiolockError, ConfigurationError
from .connection import Connection, connected
from .duration import Duration, in_words
from .exits import ExitCode, errors_as_exits, leave
from .frame import PAUSE, Frame, Watched
from .output import HEADINGS, columns, json_option, print_json, row_of

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
    with errors_as_exits():
        try:
            if once or as_json or not sys.stdout.isatty():
                frame = asyncio.run(_once(connection, pattern))
                print_json(frame.facts()) if as_json else click.echo(_text(frame))
            else:
                asyncio.run(_live(connection, pattern, interval))
        except KeyboardInterrupt:
            leave(ExitCode.OK)


async def _once(connection: Connection, pattern: str) -> Frame:
    async with connection.names() as names:
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


async def _live(connection: Connection, pattern: str, interval: float) -> None:
    from .screen import Screen

    screen, frame, loop = Screen(), None, asyncio.get_running_loop()
    with screen.shown():
        screen.show(None)
        while not screen.left.is_set():
            try:
                async with connection.names() as names:
                    watched, due = Watched(names, pattern), loop.time()
                    while not screen.left.is_set():
                        frame = await watched.next_frame()
                        if loop.time() >= due:
                            screen.show(frame)
                            due = loop.time() + interval
                        await _pause(screen.left)
            except ConfigurationError:
                raise
            except AiolockError as error:  # it may come back, or another may become the master
                screen.show(frame, str(error))
                await _pause(screen.left)


async def _pause(left: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(PAUSE):
            await left.wait()
    except TimeoutError:
        return
