"""What others see of who holds a lock."""

from __future__ import annotations

import os
import socket

import pytest

import aiolock.identity
from aiolock import AcquireTimeout, ConfigurationError, LockManager
from aiolock.identity import container_of, identity
from aiolock.testing import MemoryBackend

ID = "4f1d2c3b4a5e" + 52 * "0"
MOUNTS = "22 27 0:21 / /proc rw - proc proc rw\n"
CGROUP = "9:name=systemd:/\n0::/\n"


@pytest.mark.parametrize(
    ("mounts", "cgroup", "container"),
    [
        (MOUNTS, CGROUP, ""),
        ("", "", ""),
        (f"{MOUNTS}611 600 8:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw - ext4 /dev/sda1 rw", "", "x"),
        (f"9 8 0:5 /storage/overlay-containers/{ID}/userdata/hostname /etc/hostname rw - tmpfs t rw", CGROUP, "x"),
        (f"{MOUNTS}50 9 0:9 / /var/lib/docker/containers/{ID}/mounts/shm rw - tmpfs shm rw", CGROUP, ""),
        (MOUNTS, f"12:memory:/docker/{ID}\n", "x"),
        (MOUNTS, f"1:name=systemd:/system.slice/docker-{ID}.scope\n", "x"),
        (MOUNTS, f"4:memory:/kubepods/besteffort/pod3c1f/{ID}\n", "x"),
        (MOUNTS, "4:memory:/process_api/0a4935ccb77a8d85443374a649a28adf\n", ""),
    ],
)  # fmt: skip
def test_the_container(mounts: str, cgroup: str, container: str) -> None:
    """As Docker, Podman and Kubernetes say it, with both versions of control groups."""
    assert container_of(mounts, cgroup) == (ID[:12] if container else "")


@pytest.mark.parametrize(
    ("name", "host", "container", "seen"),
    [
        ("", "web-3", "", "web-3"),
        ("shop", "web-3", "", "shop@web-3"),
        ("", "web-3", ID[:12], f"web-3/{ID[:12]}"),
        ("shop", "web-3", ID[:12], f"shop@web-3/{ID[:12]}"),
        ("", ID[:12], ID[:12], ID[:12]),
    ],
)
def test_who_it_is(name: str, host: str, container: str, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two containers of one host name differ. A host that is named by its container is named once."""
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    monkeypatch.setattr(aiolock.identity, "_container", lambda: container)
    assert identity(name) == f"{seen}:{os.getpid()}"


async def test_others_see_the_name() -> None:
    """In `info()`, and in the errors of those that wait. Kept by Binding.begin."""
    backend = MemoryBackend()
    locks = LockManager(backend, name="shop")
    async with locks, LockManager(MemoryBackend(backend)) as others, locks.lock("a", metadata="nightly"):
        info = await others.lock("a").info()
        assert info is not None
        assert info.holder == identity("shop")
        with pytest.raises(AcquireTimeout) as caught:
            await others.lock("a").acquire(timeout=0)
        assert caught.value.holder is not None
        assert caught.value.holder.process == identity("shop")
        assert caught.value.holder.metadata == "nightly"
    assert repr(locks) == "<LockManager 'shop' ttl=30 closed>"


@pytest.mark.parametrize("name", ["", "two words", "a\nb", "über", "x" * 65, 7])
def test_a_name_that_cannot_work(name: object) -> None:
    with pytest.raises(ConfigurationError, match="name must be 1 to 64 printable ASCII characters without spaces"):
        LockManager(MemoryBackend(), name=name)  # type: ignore[arg-type]
