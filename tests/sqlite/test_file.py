"""What can be wrong with the file: a clear error for each, nothing is held by two, and the manager recovers."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from aiolock import AcquireTimeout, BackendError, ConfigurationError, LockLost, LockManager, LossReason
from aiolock.backends.sqlite import file as files
from aiolock.events import Disconnected, Event, Reconnected
from aiolock.recipes import guard

ENOUGH = 20.0
TTL = 6.0


async def until(happened: asyncio.Event) -> None:
    async with asyncio.timeout(ENOUGH):
        await happened.wait()


class Watch:
    """An observer that sets an event for each type of event."""

    def __init__(self) -> None:
        self.told: dict[type[Event], asyncio.Event] = {Disconnected: asyncio.Event(), Reconnected: asyncio.Event()}
        self.errors: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Disconnected):
            self.errors.append(str(event.error))
        if type(event) in self.told:
            self.told[type(event)].set()


async def test_what_is_there_may_be_used_again(url: str) -> None:
    """The file is made, kept and opened again; fences rise over both."""
    fences = []
    for _ in range(2):
        async with LockManager(url) as locks, locks.lock("a") as lease:
            fences.append(lease.fence)
    assert fences[0] < fences[1]


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("sqlite://locks.db", "write sqlite:///locks.db"),
        ("sqlite://", "write sqlite:///locks.db"),
        ("sqlite:///", "write sqlite:///locks.db"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite:///locks.db?timeout=1", "names no file"),
    ],
)
def test_a_url_that_names_no_file(url: str, remedy: str) -> None:
    """Kept by path_of."""
    with pytest.raises(ConfigurationError, match=remedy):
        LockManager(url)


def test_no_replicas(url: str) -> None:
    with pytest.raises(ConfigurationError, match="min_replicas"):
        LockManager(url, min_replicas=1)


async def test_three_slashes_begin_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in SQLAlchemy; the folder is that of the moment when the manager is made."""
    monkeypatch.chdir(tmp_path)
    locks = LockManager("sqlite:///a%20b.db")
    monkeypatch.chdir("/")
    async with locks, locks.lock("a"):
        assert (tmp_path / "a b.db").exists()


async def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no folder .*/nowhere: create it .*four slashes"):
        await LockManager(f"sqlite:///{tmp_path}/nowhere/locks.db").open()


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("PRAGMA application_id = 7", "another program"),
        ("CREATE TABLE orders(id)", "another program"),
        (f"PRAGMA application_id = {files.APPLICATION}", "another version of aiolock made it"),
    ],
)
async def test_a_file_of_something_else(url: str, path: Path, made: str, why: str, journal: str) -> None:
    """Not a byte of it is changed, and nothing is left beside it. Kept by LockFile._is_ours."""
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA journal_mode = {journal}")
    other.execute(made)
    other.close()
    before = path.read_bytes()  # noqa: ASYNC240
    with pytest.raises(ConfigurationError, match=f"{why}.*: give the locks a file of their own"):
        await LockManager(url).open()
    assert path.read_bytes() == before  # noqa: ASYNC240
    assert os.listdir(path.parent) == [path.name]


def test_many_that_make_the_file(url: str) -> None:
    """None takes one that is half made for something else's. Kept by LockFile._prepare."""

    async def use(number: int) -> None:
        async with LockManager(url) as locks, locks.lock(f"{number}"):
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: asyncio.run(use(number)), range(24)))


async def test_no_database(url: str, path: Path) -> None:
    path.write_text("not a database at all, " * 100)  # noqa: ASYNC240
    with pytest.raises(BackendError, match="not an SQLite database: give the locks a file of their own"):
        await LockManager(url).open()
    assert os.listdir(path.parent) == [path.name]


async def test_a_file_that_may_only_be_read(url: str) -> None:
    """Kept by LockFile.unavailable."""
    async with LockManager(url, ttl=60) as locks:
        engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
        engine._link.execute("PRAGMA query_only = ON")
        with pytest.raises(BackendError, match="read-only: let the process write to the file and to its folder"):
            await locks.lock("a").acquire()
        async with asyncio.timeout(ENOUGH):  # another connection is tried
            while locks._runtime.backend.unreachable is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_a_database_that_refuses_to_be_written(url: str) -> None:
    """As a full disk does: who asks now is told; a holder keeps its lease, and goes on when there is room again."""
    watch = Watch()
    async with LockManager(url, ttl=TTL, observer=watch) as locks, locks.lock("held") as lease:
        refused = sqlite3.OperationalError("database or disk is full")
        refused.sqlite_errorcode = sqlite3.SQLITE_FULL
        with mock.patch("aiolock.backends.sqlite.engine.save_if", side_effect=refused):
            with pytest.raises(BackendError, match="the disk is full: make room") as told:
                await locks.lock("other").acquire()
            assert told.value.transient
            waiting = asyncio.ensure_future(locks.lock("held").acquire())
            with pytest.raises(BackendError, match="the disk is full"):
                await locks.lock("third").acquire(timeout=1)
        await until(watch.told[Reconnected])
        lease.ensure()
        async with locks.lock("other"):
            pass
        waiting.cancel()
        assert "full" in watch.errors[0]


@pytest.mark.parametrize("way", ["deleted", "replaced"])
async def test_a_file_that_is_replaced_under_a_holder(url: str, path: Path, way: str) -> None:
    """Others use the new one: who held a lock in the old one is told. Kept by LockFile.check."""
    async with LockManager(url, ttl=TTL) as locks:
        lease = await locks.lock("a").acquire()
        for suffix in ("-wal", "-shm", ""):
            os.unlink(f"{path}{suffix}")
        if way == "replaced":
            async with LockManager(url) as others, others.lock("a") as theirs:
                assert theirs.fence > lease.fence
        lease._hold.verify()  # as the next renewal does
        async with asyncio.timeout(ENOUGH):
            assert await lease.wait_lost() in (LossReason.DELETED, LossReason.TAKEN_OVER)
        with pytest.raises(LockLost):
            await lease.release()
        async with locks.lock("a") as again:
            assert again.fence > lease.fence


async def test_shared_memory_that_is_deleted(url: str, path: Path) -> None:
    """SQLite's locks are there: who has the old one, and who makes a new one, would not see each other. What is held
    stays so. Kept by LockFile.check.
    """
    watch = Watch()
    async with LockManager(url, ttl=60, observer=watch) as locks, locks.lock("a") as lease:
        os.unlink(f"{path}-shm")
        lease._hold.verify()
        await until(watch.told[Reconnected])
        assert os.path.exists(f"{path}-shm")  # noqa: ASYNC240
        async with LockManager(url, ttl=60) as others:
            with pytest.raises(AcquireTimeout):
                await others.lock("a").acquire(timeout=0)
        lease.ensure()


@pytest.mark.parametrize("first", ["_sweep", "_forget"])
async def test_what_nobody_waits_for_finds_the_file_gone(url: str, path: Path, first: str) -> None:
    """The next request tells it, and what is held is looked at, though the file could be opened anew without a word.
    Kept by SQLiteEngine._lost.
    """
    watch = Watch()
    async with LockManager(url, ttl=60, observer=watch) as locks:
        lease = await locks.lock("a").acquire()
        engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
        for suffix in ("", "-wal", "-shm"):
            os.unlink(f"{path}{suffix}")
        done = asyncio.Event()
        engine._do(getattr(engine, first) if first == "_sweep" else lambda: engine._forget("a"), lambda _: done.set())
        await until(done)
        with pytest.raises(BackendError, match="it was deleted or replaced"):
            await locks.lock("b").acquire()
        await until(watch.told[Reconnected])
        assert await lease.wait_lost() is LossReason.DELETED
        with pytest.raises(LockLost):
            await lease.release()


async def test_a_copy_goes_on_with_higher_fences(url: str, path: Path, tmp_path: Path) -> None:
    async with LockManager(url, ttl=60) as locks:
        held = await locks.lock("held").acquire()
        async with locks.lock("free") as free:
            pass
        copy = tmp_path / "copy.db"
        source, target = sqlite3.connect(path), sqlite3.connect(copy)
        source.backup(target)
        source.close()
        target.close()
        async with LockManager(f"sqlite:///{copy}") as others:
            info = await others.lock("held").info()
            assert info is not None
            assert info.fence == held.fence
            async with others.lock("free") as again:
                assert again.fence > free.fence
        await held.release()


async def test_locked_by_others(url: str, path: Path) -> None:
    """Who asks is told why; it goes on by itself when they let go. Kept by LockFile.patiently."""
    watch = Watch()
    async with LockManager(url, ttl=60, observer=watch) as locks, locks.lock("held") as lease:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BackendError, match="another process keeps it locked") as told:
            await locks.lock("a").acquire()
        assert told.value.transient
        assert str(path) in str(told.value)
        with pytest.raises(BackendError, match="another process keeps it locked"):
            await LockManager(url, request_timeout=3).open()
        other.execute("ROLLBACK")
        other.close()
        await until(watch.told[Reconnected])
        async with locks.lock("a"):
            lease.ensure()


def test_a_crowd_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as others write, it is no outage that the file is locked; if none does, it is one, after as long as you
    have patience. Kept by LockFile.patiently.
    """
    file = files.LockFile(path, 4.0, lambda: False)
    link, others = file.connect(), sqlite3.connect(path, isolation_level=None)
    now, last = 0.0, 60.0

    def passed(seconds: float) -> None:
        nonlocal now
        if int(now + seconds) > int(now) and now <= last:
            others.execute("INSERT INTO aiolock VALUES(?, 'string', '', NULL)", (str(now),))
            others.execute("COMMIT")
            others.execute("BEGIN IMMEDIATE")
        now += seconds

    monkeypatch.setattr("time.sleep", passed)
    monkeypatch.setattr("time.monotonic", lambda: now)
    others.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError):
        file.patiently(link, lambda: link.execute("BEGIN IMMEDIATE"))
    assert last + 4.0 < now < last + 10.0
    others.execute("ROLLBACK")
    file.patiently(link, lambda: link.execute("BEGIN IMMEDIATE"))
    for each in (link, others):
        each.close()


async def test_closing_while_it_is_locked_by_others(url: str, path: Path) -> None:
    """It takes no longer than an attempt. Kept by SQLiteEngine.aclose."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    locks = LockManager(url, ttl=60)
    await locks.open()
    await locks.lock("a").acquire()
    other.execute("BEGIN IMMEDIATE")
    async with asyncio.timeout(ENOUGH):
        await locks.close()
    other.close()
    async with LockManager(url) as again:
        info = await again.lock("a").info()
        assert info is not None


async def test_a_loop_that_ended_without_closing(url: str) -> None:
    """The manager can be entered on another one. Kept by SerialThread.stop."""
    locks = LockManager(url, ttl=60)

    def run() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(locks.open())
        loop.close()

    await asyncio.to_thread(run)
    async with asyncio.timeout(ENOUGH), locks, locks.lock("a"):
        pass


async def test_it_is_opened_twice(url: str) -> None:
    async with LockManager(url) as locks:
        with pytest.raises(ConfigurationError, match="already open"):
            await locks._runtime.backend.open(timeout=1, reconnected=lambda: None)


async def test_rows_of_names_that_expired_are_swept(url: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many names as an application ever uses do not stay. Kept by SQLiteEngine._sweep."""
    monkeypatch.setattr("aiolock.backends.sqlite.engine.SWEEP", 20)
    async with LockManager(url, ttl=0.1) as locks:
        engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
        for number in range(30):
            async with locks.lock(f"n{number}"):
                pass
        engine._clock._ahead += 10 * 24 * 3600 * 10**6
        for number in range(100):
            async with locks.lock(f"m{number}"):
                pass
    rows = {key for (key,) in sqlite3.connect(path).execute("SELECT key FROM aiolock")}
    assert not [key for key in rows if "{n" in key]


async def test_nobody_waits_for_a_sweep(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer comes before what is due after it. Kept by SQLiteEngine._transact."""
    held, swept = threading.Event(), threading.Event()

    def sweep(*_: object) -> str:
        assert held.wait(ENOUGH)
        swept.set()
        return ""

    monkeypatch.setattr("aiolock.backends.sqlite.engine.SWEEP", 1)
    monkeypatch.setattr("aiolock.backends.sqlite.engine.sweep", sweep)
    async with LockManager(url, ttl=60) as locks:
        lease = await locks.lock("a").acquire()
        assert not swept.is_set()
        held.set()
        await lease.release()
    assert swept.is_set()


def test_without_lupa(url: str) -> None:
    with (
        mock.patch.dict("sys.modules", {"lupa.lua51": None}),
        pytest.raises(ConfigurationError, match=r"SQLite run the Lua .* pip install lupa"),
    ):
        LockManager(url)


def test_a_folder_can_be_moved_while_nobody_uses_it(tmp_path: Path) -> None:
    """Nothing in the file says where it is."""

    async def fence(folder: Path) -> int:
        async with LockManager(f"sqlite:///{folder}/locks.db") as locks, locks.lock("a") as lease:
            return lease.fence

    (tmp_path / "one").mkdir()
    first = asyncio.run(fence(tmp_path / "one"))
    shutil.move(tmp_path / "one", tmp_path / "two")
    assert asyncio.run(fence(tmp_path / "two")) > first


async def test_guarded_writes_need_a_server(url: str) -> None:
    async with LockManager(url) as locks, locks.lock("a") as lease:
        with pytest.raises(ConfigurationError, match="guarded writes need a Redis server, and 'a' is kept in SQLite"):
            guard(lease, mock.Mock())


async def test_an_error_that_nobody_expects(url: str) -> None:
    """Nothing waits for ever: what was asked for is asked for again. Kept by SQLiteEngine._attempt."""
    watch = Watch()
    async with LockManager(url, ttl=60, observer=watch) as locks, locks.lock("held") as lease:
        with (
            mock.patch("aiolock.backends.sqlite.engine.load", side_effect=OSError("too many open files")),
            pytest.raises(BackendError, match=r"a request on it failed \(too many open files\)"),
        ):
            await locks.lock("a").acquire()
        await until(watch.told[Reconnected])
        async with locks.lock("a"):
            lease.ensure()
