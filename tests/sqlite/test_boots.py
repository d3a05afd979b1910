"""Who sees another boot than others: a container with an id of its own, a sandbox that shows none."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from aiolock import AcquireTimeout, ConfigurationError, LockManager
from aiolock.backends.sqlite import clock
from aiolock.backends.sqlite.reader import FileReader
from aiolock.backends.sqlite.rights import Rights

pytestmark = pytest.mark.skipif(not clock.BOOT.exists(), reason="the system does not tell one boot from another")


@contextmanager
def boot(tmp_path: Path, known: bool = True) -> Iterator[None]:
    """Another boot id is seen, or none."""
    other = tmp_path / f"boot-{uuid.uuid4()}"
    if known:
        other.write_text(f"{uuid.uuid4()}\n")
    with mock.patch.object(clock, "BOOT", other):
        yield


def row(path: Path) -> tuple[str, int]:
    (boot, ahead, _) = sqlite3.connect(path).execute("SELECT * FROM aiolock_clock").fetchone()
    return boot, ahead


async def test_a_container_with_a_boot_id_of_its_own(url: str, path: Path, tmp_path: Path) -> None:
    """It has the clock of those who have the file open, and so have those who come later, from either side. Kept by
    Users.any.
    """
    async with LockManager(url, ttl=30) as locks, locks.lock("a") as lease:
        before = row(path)
        with boot(tmp_path):
            async with LockManager(url) as other:
                for one in (other, locks):
                    with pytest.raises(AcquireTimeout):
                        await asyncio.create_task(one.lock("a").acquire(timeout=0))
                async with other.lock("b") as later:
                    assert lease.fence < later.fence < lease.fence + clock.RESERVED
        async with LockManager(url) as third:
            with pytest.raises(AcquireTimeout):
                await asyncio.create_task(third.lock("a").acquire(timeout=0))
        assert row(path) == before


async def test_it_stays_as_long_as_anybody(url: str, path: Path, tmp_path: Path) -> None:
    """The first that knew the boot is gone; who came second keeps it. Kept by HostClock, which joins what it found."""
    first = await LockManager(url).open()
    before = row(path)
    with boot(tmp_path):
        second = await LockManager(url).open()
    await first.aclose()
    with boot(tmp_path):
        third = await LockManager(url).open()
    assert row(path) == before
    await second.aclose()
    await third.aclose()
    with boot(tmp_path):
        async with LockManager(url):
            assert row(path) != before
    assert len([name for name in os.listdir(tmp_path) if name.startswith("locks.db-boot-")]) == 1


async def test_a_file_that_is_lost_for_a_moment(url: str, path: Path, tmp_path: Path) -> None:
    """Its manager may hold locks yet. Kept by SQLiteEngine._tick, which does not stop the clock at once."""
    async with LockManager(url, ttl=30) as locks, locks.lock("a"):
        before = row(path)
        engine = locks._runtime.backend._engine  # type: ignore[attr-defined]
        engine._link.close()
        engine._link = None
        with boot(tmp_path):
            async with LockManager(url):
                assert row(path) == before


async def test_a_sandbox_that_shows_no_boot_id(url: str, path: Path, tmp_path: Path) -> None:
    """It is refused, before or after others. Kept by boot_id."""
    with boot(tmp_path, known=False), pytest.raises(ConfigurationError, match="ProcSubset=all"):
        await LockManager(url).open()
    async with LockManager(url, ttl=30) as locks, locks.lock("a") as lease:
        with boot(tmp_path, known=False), pytest.raises(ConfigurationError, match="ProcSubset=all"):
            await LockManager(url).open()
        lease.ensure()


@pytest.mark.parametrize("known", [True, False])
async def test_who_only_looks_moves_no_clock(url: str, path: Path, tmp_path: Path, known: bool) -> None:
    """Whatever it sees. Kept by seen_us."""
    async with LockManager(url, ttl=30) as locks, locks.lock("a") as lease:
        before = row(path)
        with boot(tmp_path, known):
            reader = FileReader(path)
            await reader.read([("TIME",)])
            await reader.close()
        assert row(path) == before
        async with LockManager(url) as others:
            with pytest.raises(AcquireTimeout):
                await others.lock("a").acquire(timeout=0)
        lease.ensure()


@pytest.fixture
def shared(path: Path) -> None:
    """The file is for a group."""
    path.touch(0o600)
    path.chmod(0o660)


@pytest.mark.usefixtures("shared")
async def test_its_file_is_for_those_who_may_use_the_database(url: str, path: Path) -> None:
    """Kept by Rights.give_file."""
    before = os.umask(0o077)
    try:
        async with LockManager(url):
            (found,) = path.parent.glob("locks.db-boot-*")
            assert stat.S_IMODE(found.stat().st_mode) == 0o660
            assert Rights(found)._group == Rights(path)._group
    finally:
        os.umask(before)


async def test_a_ticket_lasts_while_nobody_has_the_file_open(url: str, tmp_path: Path) -> None:
    """A container that comes next does not leap over what was reserved. Kept by HostClock.rest."""
    async with LockManager(url, ttl=30) as locks:
        lease = await locks.lock("a").acquire()
        ticket = await lease.detach()
    with boot(tmp_path):
        async with LockManager(url, ttl=30) as other:
            with pytest.raises(AcquireTimeout):
                await other.lock("a").acquire(timeout=0)
            resumed = await other.resume(ticket)
            assert lease.fence < resumed.fence < lease.fence + clock.RESERVED
            await resumed.release()


ASKS = """
import asyncio, sys
from aiolock import AcquireTimeout, AiolockError, LockManager

async def main():
    try:
        async with LockManager(sys.argv[1]) as locks:
            await locks.lock("a").acquire(timeout=0)
    except AcquireTimeout:
        print("excluded")
    except AiolockError as error:
        print("refused", error)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("mount --bind {id} /proc/sys/kernel/random/boot_id", "excluded"),
        ("mount -t proc -o subset=pid proc /proc", "refused"),
    ],
)
async def test_real_containers(url: str, tmp_path: Path, way: str, said: str) -> None:
    own = tmp_path / "id"
    own.write_text(f"{uuid.uuid4()}\n")
    prepare = way.format(id=own)
    inside = ["unshare", "--mount", "--fork", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run([*inside, prepare], check=False).returncode:  # noqa: ASYNC221
        pytest.skip("mount namespaces are not permitted")
    async with LockManager(url, ttl=60) as locks, locks.lock("a") as lease:
        words = [*inside, f'{prepare} && exec "$0" "$@"', sys.executable, "-c", ASKS, url]
        for _ in range(2):
            done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=True)
            assert done.stdout.startswith(said), done
        lease.ensure()
