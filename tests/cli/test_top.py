"""`aiolock top`: one picture, and a live one in a real terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import termios
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiolock import LockManager
from aiolock.backends.survey import Survey
from aiolock.cli.connection import Connection
from aiolock.cli.frame import Frame, Row, Watched
from aiolock.cli.namespace import Namespace
from aiolock.cli.screen import SORTS, Look, picture
from aiolock.cli.screen import Screen as Live
from aiolock.cli.text import width as width_of
from aiolock.cli.top import _watch
from aiolock.scripts.view import NameView
from tests.support import redis_cli

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


async def test_the_first_frame_has_all_names(cli: CommandLine) -> None:
    """However many other keys the server has. Kept by Watched.first_frame."""
    with redis_cli.client(cli.url) as link:
        link.mset({f"key:{number}": 1 for number in range(40_000)})
    async with LockManager(cli.url) as locks, Survey(cli.url) as survey, AsyncExitStack() as held:
        for name in "abcdefgh":
            await held.enter_async_context(locks.lock(name))
        frame = await Watched(Namespace(survey, "aiolock"), "*").first_frame()
        assert {row.view.name for row in frame.rows} == set("abcdefgh")


async def test_the_interval_is_that_of_asking(cli: CommandLine) -> None:
    """A long one spares the server. Kept by _watch."""

    class Shown:
        frames = 0

        def show(self, frame: Frame) -> None:
            self.frames += 1

        def trouble(self, text: str) -> None:
            raise AssertionError(text)

    async with LockManager(cli.url) as locks, locks.lock("a"):
        connection, shown = Connection((cli.url,), False, (), "", "aiolock"), Shown()
        with redis_cli.client(cli.url) as link:
            asked: Any = link.info("commandstats")
            watching = asyncio.create_task(_watch(connection, "*", 3600.0, shown))  # type: ignore[arg-type]
            while not shown.frames:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
            now: Any = link.info("commandstats")
        watching.cancel()
        await asyncio.wait([watching])
    assert shown.frames == 1
    assert now["cmdstat_zcard"]["calls"] - asked.get("cmdstat_zcard", {"calls": 0})["calls"] <= 2


async def test_json(cli: CommandLine) -> None:
    async with scene(cli.url):
        said = json.loads((await asyncio.to_thread(cli, "top", "--interval", "0", "--json", "order:*")).stdout)
        text = (await asyncio.to_thread(cli, "top", "--interval", "0", "order:*")).stdout
    assert (said["held"], said["waiting"], [name["name"] for name in said["names"]]) == (1, 2, ["order:42"])
    assert text.startswith("1 held, 2 waiting, the oldest for ")


def frame_of(*names: str, process: str = "", **facts: Any) -> Frame:
    views = [NameView("lock", name, "held", process, **facts) for name in names]
    return Frame(tuple(Row(view, 0.0) for view in views), ("localhost:6379",))


@pytest.mark.parametrize(("width", "height"), [(100, 30), (60, 8), (30, 5), (20, 3), (9, 2)])
def test_a_small_terminal(width: int, height: int) -> None:
    """Nothing is wider or higher than that, and what does not fit is counted."""
    frame = frame_of(*(f"name {number:02} " + "名" * 50 for number in range(20)), process="host:1")
    lines = picture(frame, Look(), width, height)
    assert len(lines) <= height
    assert {width_of(line) for line in lines} == {width}
    assert ("of 20" in lines[-1]) == (height < 20 + 3 and width >= 30)
    assert ("name 0" in "".join(lines)) == (height > 3)


def test_the_name_of_a_pod_fits() -> None:
    """In a terminal of the usual width. Kept by _widths."""
    pod = "checkout-worker-7d9f8b6c5d-x2x4q:12345"
    frame = frame_of(
        "order:42", "customer:" + "9" * 50, process=pod, metadata="charge", ttl=27.9, waiting=12, oldest_wait=3.5
    )
    lines = picture(frame, Look(), 80, 24)
    assert [pod in line for line in lines[2:4]] == [True, True]
    assert lines[1].split()[:3] == ["NAME", "STATE", "HOLDER"]


def test_what_most_wait_for_comes_first() -> None:
    """Kept by SORTS."""
    few, most = (NameView("lock", name, "held", waiting=waiting) for name, waiting in (("few", 1), ("most", 2)))
    busy = NameView("lock", "busy", "held", waiting=1)
    frame = Frame((Row(few, 0.0), Row(busy, 5.0), Row(most, 0.0)), ("localhost:6379",))
    assert [row.view.name for row in Look().rows(frame)] == ["most", "busy", "few"]


def test_scroll_sort_filter() -> None:
    """Kept by Screen._pressed and Look.rows."""
    live = Live()
    views = [
        NameView("lock", f"name {number:02}", "held", f"host:{number % 3}", ttl=float(-number)) for number in range(20)
    ]
    frame = Frame(tuple(Row(view, 0.0) for view in views), ("localhost:6379",))

    def names(*keys: str) -> list[str]:
        for key in keys:
            live._pressed(key)
        lines = picture(frame, live._look, 60, 8, typing=live._typing)
        return [line[5:7] for line in lines[2:-1]]

    assert names() == ["00", "01", "02", "03", "04"]
    assert names("\x1b[B", "j") == ["02", "03", "04", "05", "06"]
    assert names("G") == names("G", "j") == ["15", "16", "17", "18", "19"]
    assert names("k") == ["14", "15", "16", "17", "18"]
    assert names("g", "k") == ["00", "01", "02", "03", "04"]
    while live._look.sort != "ttl":
        names("s")
    assert names() == ["19", "18", "17", "16", "15"]
    assert names("/", *"t:2!", "\x7f", "\r") == ["17", "14", "11", "08", "05"]
    assert names("j") == ["14", "11", "08", "05", "02"]
    assert not live.left.is_set()
    assert names("\x1b", "g") == ["19", "18", "17", "16", "15"]
    names("/", "q", "\r")
    assert not live.left.is_set()
    names("q")
    assert live.left.is_set()
    assert all(picture(frame, Look(sort), 60, 8) for sort in SORTS)


LEFT = "\x1b[?1049l"
"""What a terminal is told when it shall show again what it showed before."""


def child_of(screen: Screen) -> int:
    """The process that its shell waits for."""
    found = subprocess.run(["ps", "-o", "pid=,ppid=", "-A"], stdout=-1, check=True, text=True).stdout
    (child,) = [int(pid) for pid, parent in map(str.split, found.splitlines()) if int(parent) == screen.pid]
    return child


def test_live(cli: CommandLine) -> None:
    """It follows what happens, also after Ctrl-Z; q and signals leave, and the terminal is as it was. Kept by
    Screen.shown. Ctrl-Z does not drop what it says last, which the kernel does a moment after the signal, unless told
    not to: kept by _by_key.
    """
    screen = Screen(cli)
    try:
        screen.shows("$ ")
        screen.type(f"stty -g > before; {cli.python} -m aiolock top\n")
        screen.shows("q: leave")

        async def hold() -> None:
            async with LockManager(cli.url) as locks, locks.lock("order:42"):
                await asyncio.to_thread(screen.shows, "order:42")
                assert screen.mode & termios.NOFLSH
                screen.type("\x1b[B")  # an arrow
                screen.type("\x1a")
                await asyncio.to_thread(screen.shows, LEFT)
                await asyncio.to_thread(screen.shows, "$ ")
                screen.type("fg\n")
                await asyncio.to_thread(screen.shows, "order:42")
                assert screen.mode & termios.NOFLSH

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
