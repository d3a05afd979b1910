"""Messages between processes: datagrams, in a folder beside the file."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
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
    async with LockManager(url, ttl=60) as locks, LockManager(url, ttl=60, recheck=60, liveness=60) as others:
        lease = await locks.lock("a").acquire()
        waiting = asyncio.ensure_future(others.lock("a").acquire())
        async with asyncio.timeout(ENOUGH):
            while not others._runtime.queue_entries:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            await lease.release()
            await (await waiting).release()


async def test_a_receiver_that_is_full_gets_all_in_the_end(tmp_path: Path) -> None:
    """Kept by Sockets._again."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[str] = asyncio.Queue()
    receiver = Sockets(tmp_path, "receiver", lambda channel, payload: heard.put_nowait(payload))
    sender = Sockets(tmp_path, "sender", lambda *_: None)
    sender.start(loop)
    for number in range(500):
        sender.send("receiver", "c", str(number))
    assert sender._kept
    receiver.start(loop)
    async with asyncio.timeout(ENOUGH):
        got = [await heard.get() for _ in range(500)]
    assert sorted(got, key=int) == [str(number) for number in range(500)]
    sender.close()
    receiver.close()


async def test_the_socket_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    """Kept by Sockets.heard."""
    mine, dead = Sockets(tmp_path, "mine", lambda *_: None), Sockets(tmp_path, "dead", lambda *_: None)
    assert mine.heard("dead")
    dead._in.close()  # as the end of its process does: its file stays
    assert (tmp_path / "dead").exists()
    assert not mine.heard("dead")
    assert not (tmp_path / "dead").exists()
    assert not mine.heard("never there")
    with mock.patch("socket.socket", side_effect=OSError("too many open files")):
        assert mine.heard("mine")
    mine.close()
    dead.close()


async def test_what_others_write_there_is_ignored(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    loop = asyncio.get_running_loop()
    mine, other = (Sockets(tmp_path, name, lambda *message: heard.append(message)) for name in ("mine", "other"))
    mine.start(loop)
    for data in (b"", b"\xff", b"{}", b"[1]", b'["a", "b", "c"]', b'["channel", "payload"]'):
        other._sent("mine", data)
    async with asyncio.timeout(ENOUGH):
        while not heard:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert heard == [("channel", "payload")]
    mine.close()
    other.close()


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


def test_where_sockets_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.offered(tmp_path, "a" * 32)
    monkeypatch.setattr("sys.platform", "darwin")
    assert module.offered(Path("/tmp/locks.db-sockets"), "a" * 32)
    assert not module.offered(tmp_path / ("x" * 100), "a" * 32)
    monkeypatch.setattr("sys.platform", "win32")
    assert not module.offered(Path("/tmp/locks.db-sockets"), "a" * 32)
