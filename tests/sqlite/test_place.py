"""Where the file is: on a disk of this host, with one name. Otherwise it is refused, before two can hold a lock."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from aiolock import AcquireTimeout, BackendError, ConfigurationError, LockManager
from aiolock.backends.sqlite import place

ENOUGH = 20.0


NOT_OURS = ("nfs4", "cifs", "9p", "gpfs", "orangefs", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs", "fakeowner")
Mounts = Callable[..., None]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounts]:
    """The system says that this is mounted, on a root of ext4: its root, its name, options, and its type."""
    mounts = tmp_path / "mounts"

    def write(line: str, root: str = "ext4") -> None:
        mounts.write_text(f"1 0 0:1 / / rw - {root} x rw\n2 1 0:2 {line} x rw\n")

    with mock.patch.object(place, "MOUNTS", mounts):
        yield write


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        *((kind, "is on a network, or another machine uses it, too") for kind in NOT_OURS),
        *((kind, "may be on a network") for kind in ("fuse", "fuse.gcsfuse", "fuse.mount-s3", "fuse.made-tomorrow")),
    ],
)
def test_a_filesystem_that_others_may_have(
    url: str, path: Path, tmp_path: Path, mounted: Mounts, kind: str, why: str
) -> None:
    """Kept by refuse_place."""
    mounted(f"/ {tmp_path} rw - {kind}")
    with pytest.raises(ConfigurationError, match=rf"\({kind}\) {why}, .*: choose .* server for locks between hosts"):
        asyncio.run(LockManager(url).open())
    assert os.listdir(tmp_path) == ["mounts"]


@pytest.mark.parametrize("kind", ["xfs", "overlay", "tmpfs", "fuseblk", "fuse.fuse-overlayfs", "made-tomorrow"])
async def test_a_filesystem_of_this_host(url: str, tmp_path: Path, mounted: Mounts, kind: str) -> None:
    """Whatever is around it. Kept by place._mount."""
    mounted(f"/ {tmp_path} rw - {kind}", root="nfs4")
    async with LockManager(url) as locks, locks.lock("a"):
        pass


async def excluded(url: str) -> bool:
    async with LockManager(url, ttl=60) as others:
        try:
            await (await others.lock("a").acquire(timeout=0)).release()
        except AcquireTimeout:
            return True
        return False


async def test_symbolic_links(url: str, path: Path, tmp_path: Path) -> None:
    """All ways to the file lead to the same locks, and the same sockets. Kept by LockFile.real."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.db").symlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path)
    ways = [url, f"sqlite:///{tmp_path}/elsewhere/link.db", f"sqlite:///{tmp_path}/folder/locks.db"]
    for way in ways:  # also the one that makes the file
        async with LockManager(way, ttl=60) as locks, locks.lock("a"):
            assert [await excluded(other) for other in ways] == [True] * 3
            assert len(list((tmp_path / "locks.db-sockets").iterdir())) == 1
        os.unlink(path)
    assert os.listdir(tmp_path / "elsewhere") == ["link.db"]


async def test_a_symbolic_link_that_is_turned(tmp_path: Path) -> None:
    """The next request finds the other file, as new managers do. Kept by LockFile.check."""
    link = tmp_path / "link.db"
    for name in ("one.db", "two.db"):
        async with LockManager(f"sqlite:///{tmp_path}/{name}"):
            pass
    link.symlink_to("one.db")
    async with LockManager(f"sqlite:///{link}", ttl=60) as locks, LockManager(f"sqlite:///{tmp_path}/two.db") as two:
        link.unlink()
        link.symlink_to("two.db")
        with pytest.raises(BackendError, match="deleted or replaced"):
            await locks.lock("a").acquire()
        async with asyncio.timeout(ENOUGH):
            while locks._runtime.backend.unreachable is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        async with locks.lock("a"):
            with pytest.raises(AcquireTimeout):
                await two.lock("a").acquire(timeout=0)


async def test_a_hard_link(url: str, path: Path, tmp_path: Path) -> None:
    """SQLite's log goes by the name: who uses the other one would be let in, too. Kept by refuse_links."""
    async with LockManager(url, ttl=60) as locks, locks.lock("held") as lease:
        os.link(path, tmp_path / "second.db")
        for way in (url, f"sqlite:///{tmp_path}/second.db"):
            with pytest.raises(ConfigurationError, match=r"two names \(2 hard links .*: keep one of them"):
                await LockManager(way).open()
        with pytest.raises((ConfigurationError, BackendError), match=r"2 hard links"):  # also one that was open
            await locks.lock("a").acquire()
        assert not os.path.lexists(tmp_path / "second.db-wal")  # noqa: ASYNC240
        (tmp_path / "second.db").unlink()
        async with asyncio.timeout(ENOUGH):
            while locks._runtime.backend.unreachable is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        async with locks.lock("a"):
            lease.ensure()


async def test_a_file_that_is_mounted_alone(url: str, path: Path, mounted: Mounts) -> None:
    """As `docker run -v /data/locks.db:/app/locks.db` does. Kept by refuse_place."""
    mounted(f"/data/locks.db {path} rw - ext4")
    with pytest.raises(ConfigurationError, match=r"two names \(it is mounted alone\).*: mount its folder instead"):
        await LockManager(url).open()
    assert not os.path.lexists(path)  # noqa: ASYNC240
    mounted(f"/data {path.parent} rw - ext4")
    async with LockManager(url):
        pass


async def test_names_of_mounts(tmp_path: Path, mounted: Mounts) -> None:
    """Kept by place._mount."""
    odd = tmp_path / "a b\\c"
    odd.mkdir()
    name = str(odd).replace("\\", "\\134").replace(" ", "\\040")
    mounted(f"/ {name} rw shared:7 master:1 - nfs")
    with pytest.raises(ConfigurationError, match=r"\(nfs\)"):
        await LockManager(f"sqlite:///{odd}/locks.db").open()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("mount"), reason="needs root")
async def test_a_real_bind_mount(url: str, path: Path, tmp_path: Path) -> None:
    async with LockManager(url):
        pass
    other = tmp_path / "other.db"
    other.touch()
    if subprocess.run(["mount", "--bind", path, other], capture_output=True, check=False).returncode:  # noqa: ASYNC221
        pytest.skip("mounting is not permitted")
    try:
        with pytest.raises(ConfigurationError, match="it is mounted alone"):
            await LockManager(f"sqlite:///{other}").open()
    finally:
        subprocess.run(["umount", "-l", other], check=True)  # noqa: ASYNC221
