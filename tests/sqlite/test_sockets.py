"""Messages between processes: datagrams, in a folder beside the file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from aiolock import LockManager, Poll
from aiolock.backends.sqlite import sockets as module
from aiolock.backends.sqlite.sockets import Sockets

ENOUGH = 20.0


def folder(path: Path) -> Path:
    return Path(f"{path}-sockets")


async def test_nothing_is_left_when_a_manager_closes(url: str, path: Path) -> None:
    async with LockManager(url), LockManager(url):
        assert len(list(folder(path).iterdir())) == 2
    assert list(folder(path).iterdir()) == []
    assert sqlite3.connect(path).execute("SELECT count(*) FROM aiolock_listeners").fetchone() == (0,)


async def test_a_path_longer_than_a_socket_may_have(tmp_path: Path) -> None:
    """Kept by Sockets._path."""
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    url = f"sqlite:///{deep}/locks.db"
    async with LockManager(url, ttl=60) as locks, LockManager(url, ttl=60, recheck=300, liveness=300) as others:
        lease = await locks.lock("a").acquire()
        waiting = asyncio.ensure_future(others.lock("a").acquire())
        async with asyncio.timeout(ENOUGH):
            while not others._runtime.queue_entries:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            await lease.release()
            await (await waiting).release()


@asynccontextmanager
async def sockets(path: Path, deliver: Callable[[str, str], None] = lambda *_: None) -> AsyncIterator[Sockets]:
    """A manager's, beside a file."""
    path.touch()  # noqa: ASYNC240
    mine = Sockets(deliver, asyncio.get_running_loop())
    assert mine.look(path)
    assert not mine.look(path)
    yield mine
    mine.close()


async def test_a_receiver_that_is_full_gets_all_in_the_end(path: Path) -> None:
    """Kept by Backlog._again."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with (
        sockets(path, lambda _, payload: heard.put_nowait(payload)) as receiver,
        sockets(path) as sender,
        asyncio.timeout(ENOUGH),
    ):
        for number in range(500):  # before the loop lets the receiver read
            sender.send(receiver.name, "c", str(number))
        got = [await heard.get() for _ in range(500)]
    assert sorted(got, key=int) == [str(number) for number in range(500)]


async def test_the_socket_of_a_killed_process_is_removed(path: Path) -> None:
    """Kept by Sockets.heard."""
    async with sockets(path) as mine, sockets(path) as dead:
        there = folder(path) / dead.name
        assert mine.heard(dead.name)
        await asyncio.sleep(0)
        assert dead._in is not None
        dead._hear(None)  # as the end of its process does: its file stays
        assert there.exists()
        assert not mine.heard(dead.name)
        assert not there.exists()
        assert not mine.heard("0" * 32)
        with mock.patch("socket.socket", side_effect=OSError("too many open files")):
            assert mine.heard(mine.name)


async def test_the_socket_of_a_process_that_was_killed_before_it_listened(path: Path) -> None:
    """Kept by Sockets._sweep."""
    async with sockets(path) as dead:
        await asyncio.sleep(0)
        dead._hear(None)
        assert (folder(path) / dead.name).exists()
        async with sockets(path) as mine:
            assert [there.name for there in folder(path).iterdir()] == [mine.name]


async def test_names_that_are_no_sockets(path: Path) -> None:
    """Rows may say anything: no file of another folder is removed. Kept by Sockets.heard."""
    (path.parent / "precious").write_text("x")
    async with sockets(path) as mine:
        names: list[Any] = ["../precious", "precious", "", "x\0y", ".", 7, b"x", None]  # a column may have any type
        for name in names:
            assert not mine.heard(name)
            mine.send(name, "c", "p")
    assert (path.parent / "precious").exists()


async def test_what_others_write_there_is_ignored(path: Path) -> None:
    heard: list[tuple[str, str]] = []
    async with sockets(path, lambda *message: heard.append(message)) as mine, sockets(path) as other:
        for data in (b"", b"\xff", b"{}", b"[1]", b"5", b"null", b"[" * 9999, b'["a", "b", "c"]'):
            other._sent(mine.name, data)
        other.send(mine.name, "channel", "payload")
        async with asyncio.timeout(ENOUGH):
            while not heard:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert heard == [("channel", "payload")]


async def handed_over(one: LockManager, two: LockManager) -> None:
    """A lock goes from one manager to the other, by a message alone."""
    lease = await one.lock("a").acquire()
    waiting = asyncio.ensure_future(two.lock("a").acquire())
    async with asyncio.timeout(ENOUGH):
        while not two._runtime.queue_entries:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        await asyncio.sleep(0)
        await two.lock("a").info()  # it has its place
        await lease.release()
        await (await waiting).release()


async def test_a_socket_that_may_not_be_written_to(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its process asks by itself, and this is said once. Kept by Sockets._sent."""
    async with sockets(path) as mine:
        with mock.patch.object(mine, "_out") as out:
            out.sendto.side_effect = PermissionError(13, "Permission denied")
            for _ in range(2):
                mine.send("0" * 32, "c", "p")
    (told,) = [record.message for record in caplog.records]
    assert "let all who may write to the file write to the sockets there" in told


@pytest.mark.parametrize("way", ["deleted", "replaced", "emptied"])
async def test_a_folder_that_is_deleted_in_use(url: str, path: Path, way: str) -> None:
    """As a cleaner of temporary files does. Kept by Sockets.look."""
    async with (
        LockManager(url, ttl=60, recheck=300, liveness=300) as one,
        LockManager(url, ttl=60, recheck=300, liveness=300) as two,
    ):
        await handed_over(one, two)
        gone = [(own.name,) for own in folder(path).iterdir()]
        if way == "emptied":
            for own in folder(path).iterdir():
                own.unlink()
        else:
            folder(path).rename(path.with_name("away"))
        if way == "replaced":
            folder(path).mkdir()
        await handed_over(one, two)
        with closing(sqlite3.connect(path)) as late:  # others forget only now who had died
            late.executemany("DELETE FROM aiolock_listeners WHERE socket = ?", gone)
            late.commit()
        await handed_over(two, one)
        await handed_over(one, two)


async def test_without_sockets_waiters_poll(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept by LockManager, which looks at `Abilities.messages`."""
    monkeypatch.setattr("aiolock.backends.sqlite.engine.offered", lambda *_: False)
    async with LockManager(url, ttl=60) as locks, LockManager(url, ttl=60, waiting=Poll(first=0.002)) as others:
        assert locks._runtime.waiting.poll == Poll()
        lease = await locks.lock("a").acquire()
        waiting = asyncio.ensure_future(others.lock("a").acquire())
        async with asyncio.timeout(ENOUGH):
            while not others._runtime.queue_entries:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            await lease.release()
            await (await waiting).release()


async def test_a_socket_that_cannot_be(url: str, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its waiters poll, and this is said once. Kept by SQLiteEngine._register."""
    folder(path).write_text("no folder")
    async with LockManager(url, ttl=60, liveness=60) as locks, LockManager(url, ttl=60, liveness=60) as others:
        await handed_over(locks, others)
        await handed_over(others, locks)
        assert locks._runtime.waiting.poll == Poll()
    told = [record.message for record in caplog.records if "cannot wake this one there" in record.message]
    assert len(told) == 2, told
    assert "no messages of releases, so waiters poll" in told[0]
    assert "let it create files in that folder" in told[0]


async def test_a_socket_that_cannot_be_again(url: str, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Kept by Sockets.look."""
    async with LockManager(url, ttl=60) as locks, LockManager(url, ttl=60, liveness=1) as others:
        folder(path).rename(path.with_name("away"))
        folder(path).write_text("no folder")
        await handed_over(locks, others)
        await handed_over(locks, others)
    assert caplog.text.count("cannot be woken any more") == 2


def test_where_sockets_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.offered(tmp_path)
    monkeypatch.setattr("sys.platform", "darwin")
    assert module.offered(Path("/tmp/locks.db"))
    assert not module.offered(tmp_path / ("x" * 100))
    monkeypatch.setattr("sys.platform", "win32")
    assert not module.offered(Path("/tmp/locks.db"))
