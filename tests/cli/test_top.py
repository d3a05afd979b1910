"""`aiolock top`: one picture, and a live one in a real terminal."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess

import pytest
from rich.console import Console

from aiolock import LockManager
from aiolock.backends.survey import Survey
from aiolock.cli.frame import Frame, Row, Watched
from aiolock.cli.namespace import Namespace
from aiolock.cli.screen import picture
from aiolock.scripts.view import NameView

from .conftest import CommandLine
from .test_looking import scene
from .test_run_process import Screen


async def test_one_frame(cli: CommandLine) -> None:
    """Most waiters first; a lock that changes hands between two looks is counted."""
    async with scene(cli.url), Survey(cli.url) as survey:
        watched = Watched(Namespace(survey, "aiolock"), "*")
        async with LockManager(cli.url) as locks:
            for _ in range(3):
                async with locks.lock("busy"):
                    frame = await watched.next_frame()
    names = [row.view.name for row in frame.rows]
    assert (names[0], frame.rows[0].view.waiting) == ("order:42", 2)
    assert {"catalog", "api", "jobs", "ready", "busy"} <= set(names)
    assert [row.hand_offs > 0 for row in frame.rows if row.view.name in ("busy", "api")].count(True) == 1
    assert frame.waiting == 5
    assert frame.oldest_wait is not None


async def test_a_name_that_appears_is_found(cli: CommandLine) -> None:
    """Kept by Watched._search: it begins anew when it is through."""
    async with LockManager(cli.url) as locks, Survey(cli.url) as survey:
        watched = Watched(Namespace(survey, "aiolock"), "*")
        assert (await watched.next_frame()).rows == ()
        async with locks.lock("late"):
            frames = [await watched.next_frame() for _ in range(2)]
        assert [row.view.name for row in frames[-1].rows] == ["late"]


async def test_json(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiolock.cli.frame.PAUSE", 0.0)
    async with scene(cli.url):
        said = json.loads((await asyncio.to_thread(cli, "top", "--json", "order:*")).stdout)
        text = (await asyncio.to_thread(cli, "top", "order:*")).stdout
    assert (said["held"], said["waiting"], [name["name"] for name in said["names"]]) == (1, 2, ["order:42"])
    assert text.startswith("1 held, 2 waiting, the oldest for ")


@pytest.mark.parametrize(("width", "height"), [(100, 30), (60, 8), (30, 5), (20, 3)])
def test_a_small_terminal(width: int, height: int) -> None:
    """Nothing is wider or higher than that, and what does not fit is counted."""
    rows = tuple(Row(NameView("semaphore", f"name {number} " + "x" * 50, "held"), 0.0) for number in range(20))
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(picture(Frame(rows, ("localhost:6379",)), width, height))
    lines = console.export_text().splitlines()
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert ("more" in lines[-1]) == (height < 20 + 3)
    assert ("name 0" in "".join(lines)) == (height > 3)


LEFT = "\x1b[?1049l"
"""What a terminal is told when it shall show again what it showed before."""


def child_of(screen: Screen) -> int:
    """The process that its shell waits for."""
    found = subprocess.run(["ps", "-o", "pid=,ppid=", "-A"], stdout=-1, check=True, text=True).stdout
    (child,) = [int(pid) for pid, parent in map(str.split, found.splitlines()) if int(parent) == screen.pid]
    return child


def test_live(cli: CommandLine) -> None:
    """It follows what happens, also after Ctrl-Z; q and signals leave, and the terminal is as it was. Kept by
    Screen.shown.
    """
    screen = Screen(cli)
    try:
        screen.shows("$ ")
        screen.type(f"stty -g > before; {cli.python} -m aiolock top\n")
        screen.shows("q: leave")

        async def hold() -> None:
            async with LockManager(cli.url) as locks, locks.lock("order:42"):
                await asyncio.to_thread(screen.shows, "order:42")
                screen.type("\x1b[B")  # an arrow
                screen.type("\x1a")
                await asyncio.to_thread(screen.shows, LEFT)
                await asyncio.to_thread(screen.shows, "$ ")
                screen.type("fg\n")
                await asyncio.to_thread(screen.shows, "order:42")

        asyncio.run(hold())
        screen.type("q")
        screen.shows(LEFT)
        screen.type("echo code $?; stty -g > after\n")
        screen.shows("code 0")
        screen.shows("$ ")
        screen.type(f"{cli.python} -m aiolock top; echo code $?\n")
        screen.shows("q: leave")
        os.kill(child_of(screen), signal.SIGTERM)
        screen.shows(LEFT)
        screen.shows("code 143")
    finally:
        screen.close()
    assert cli.noted("before") == cli.noted("after") != []
