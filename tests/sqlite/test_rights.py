"""Several users with one file: whoever may write to it can wake the others, and is woken."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiolock.backends.sqlite.rights import Rights

ROOT = sys.platform == "linux" and os.geteuid() == 0


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def made(path: Path) -> tuple[os.stat_result, os.stat_result]:
    """The folder beside a file, and a socket in it."""
    folder = path.with_name("folder")
    rights = Rights(path)
    fd = rights.folder(folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(f"/proc/self/fd/{fd}/own" if sys.platform == "linux" else str(folder / "own"))
        rights.give(fd, folder / "own")
    os.close(fd)
    return folder.stat(), (folder / "own").stat()


@pytest.mark.parametrize("mask", [0, 0o22, 0o77])
@pytest.mark.parametrize(("mode", "entered"), [(0o600, 0o700), (0o640, 0o750), (0o660, 0o770), (0o666, 0o777)])
def test_the_modes_are_those_of_the_file(path: Path, mode: int, entered: int, mask: int) -> None:
    """Whatever the umask is. Kept by Rights.folder and Rights.give."""
    path.touch()
    path.chmod(mode)
    with umask(mask):
        folder, own = made(path)
    assert stat.S_IMODE(folder.st_mode) == entered
    assert stat.S_IMODE(own.st_mode) == mode


def test_a_folder_that_was_there(path: Path) -> None:
    """It gets what the file got since; what an administrator gave it stays. Kept by Rights.folder."""
    path.touch()
    path.chmod(0o660)
    path.with_name("folder").mkdir()
    path.with_name("folder").chmod(0o2705)
    folder, _ = made(path)
    assert stat.S_IMODE(folder.st_mode) == 0o2775


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_owner_and_group(path: Path) -> None:
    """Root makes them for the file's owner, as SQLite does. Kept by Rights."""
    path.touch()
    os.chown(path, 1001, 1002)
    assert [(found.st_uid, found.st_gid) for found in made(path)] == [(1001, 1002)] * 2


def test_a_link_in_the_place_of_a_socket(path: Path) -> None:
    """Who may write to the folder cannot make root change what is elsewhere. Kept by Rights.give."""
    path.touch()
    path.chmod(0o666)
    precious = path.with_name("precious")
    precious.touch()
    precious.chmod(0o600)
    rights = Rights(path)
    fd = rights.folder(path.with_name("folder"))
    for put in (os.symlink, os.link):
        put(precious, path.with_name("folder") / "own")
        rights.give(fd, path.with_name("folder") / "own")
        (path.with_name("folder") / "own").unlink()
    os.close(fd)
    assert stat.S_IMODE(precious.stat().st_mode) == 0o600


def test_a_link_in_the_place_of_the_folder(path: Path) -> None:
    path.touch()
    path.with_name("elsewhere").mkdir(0o700)
    path.with_name("folder").symlink_to("elsewhere")
    with pytest.raises(OSError, match="folder"):
        Rights(path).folder(path.with_name("folder"))


USER = """
import asyncio, logging, os, sys, tempfile
from aiolock import LockManager

logging.basicConfig(level=logging.WARNING, stream=sys.stdout)

async def hand_over(one, two):
    lease = await one.fair_lock("a").acquire()
    waiting = asyncio.ensure_future(two.fair_lock("a").acquire())
    while not (info := await one.fair_lock("a").info()) or not info.waiters:
        await asyncio.sleep(0.01)
    await lease.release()
    await (await waiting).release()

async def warm_up():  # later, modules cannot be imported
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/locks.db"
        async with LockManager(url) as one, LockManager(url) as two:
            await hand_over(one, two)

async def main(what, url):
    async with LockManager(url, ttl=60, recheck=300, liveness=300) as locks:
        lease = await locks.fair_lock("a").acquire()
        print("has it", flush=True)
        while what == "holds" and not (await locks.fair_lock("a").info()).waiters:
            await asyncio.sleep(0.01)
        await lease.release()

what, user, url = sys.argv[1:]
asyncio.run(warm_up())
os.umask(0o077)
if user != "0":
    os.setgroups([1001])
    os.setgid(1001)
    os.setuid(int(user))
try:
    asyncio.run(main(what, url))
except Exception as error:
    print(error)
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A file that a group may use, in a folder that it may use."""
    folder = Path(tempfile.mkdtemp())  # all may enter the folders above
    path = folder / "locks.db"
    path.touch()
    for there, mode in ((folder, 0o770), (path, 0o660)):
        os.chown(there, 1001, 1001)
        there.chmod(mode)
    yield path
    shutil.rmtree(folder)


def user(what: str, number: int, path: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", USER, what, str(number), f"sqlite:///{path}"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(not ROOT, reason="needs root")
@pytest.mark.parametrize(("holder", "waiter"), [(1001, 1002), (1002, 1001), (1001, 0), (0, 1001)])
def test_users_wake_each_other(shared: Path, holder: int, waiter: int) -> None:
    """Without a message it takes a minute. Kept by Rights."""
    with user("holds", holder, shared) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "has it\n"
        with user("waits", waiter, shared) as two:
            try:
                told, _ = two.communicate(timeout=15)
            finally:
                two.kill()
                one.kill()
    assert told == "has it\n"


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_a_user_who_may_only_read(shared: Path) -> None:
    """Entering says so. Kept by SQLiteEngine._enlist, which writes."""
    for number in (1001, 1002):
        with user("waits", number, shared) as one:
            told, _ = one.communicate(timeout=30)
        shared.chmod(0o640)
        Path(f"{shared}-sockets").chmod(0o750)
    assert "read-only: let the process write to the file and to its folder" in told.splitlines()[-1]
    assert not told.startswith("has it")
    assert "acquir" not in told
