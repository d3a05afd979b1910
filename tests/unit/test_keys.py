"""Keys: any name works, all keys of a name share a slot, different names never collide."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.crc import key_slot

from aiolock import ConfigurationError, LockManager
from aiolock.scripts.keys import MAX_NAME_BYTES, Keys, check_name
from aiolock.testing import MemoryBackend

from .world import lock_keys, settle

NAMES = [
    "order:42",
    "with spaces and\ttabs",
    "}x",
    "{x",
    "{}",
    "{a}{b}",
    "a}b{c",
    "100%",
    "%7D",
    ":::",
    ":state",
    "new\nline\r\n",
    "nul\0byte",
    "🔒🗝️",
    "x" * MAX_NAME_BYTES,
    "é" * (MAX_NAME_BYTES // 2),
    "*",
]
BAD = ["", "x" * (MAX_NAME_BYTES + 1), "é" * (MAX_NAME_BYTES // 2 + 1), "\ud800", b"bytes", None, 42, ["a"]]


@pytest.mark.parametrize("name", NAMES)
def test_all_keys_of_a_name_share_a_slot(name: str) -> None:
    """`_ENCODED` in keys.py: unescaped, `}x` leaves an empty hash tag, and lock and state are separated."""
    keys = Keys("aiolock").of("lock", name)
    slots = {key_slot(key.encode()) for key in (keys.lock, keys.state, keys.free, keys.dead("m:1"))}
    assert len(slots) == 1


def test_no_two_names_share_a_key() -> None:
    names = [Keys("aiolock").of(kind, name) for kind in ("lock", "fair") for name in NAMES]
    keys = [key for one in names for key in (one.lock, one.state, one.free, one.dead("m:1"))]
    assert len(set(keys)) == len(keys)


def test_the_wire_format() -> None:
    keys = Keys("aiolock").of("lock", "order:42")
    assert keys.lock == "aiolock:lock:{order:42}"
    assert keys.state == "aiolock:lock:{order:42}:state"
    assert keys.free == "aiolock:lock:{order:42}:free"
    assert keys.dead("m:1") == "aiolock:lock:{order:42}:dead:m:1"
    assert Keys("aiolock").manager("m") == "aiolock:manager:m"


def test_channels_carry_the_database() -> None:
    near, far = Keys("aiolock", 0), Keys("aiolock", 3)
    assert near.of("lock", "a").lock == far.of("lock", "a").lock
    assert near.of("lock", "a").free != far.of("lock", "a").free
    assert near.manager("m") != far.manager("m")


@pytest.mark.parametrize("name", NAMES)
async def test_any_name_locks(locks: LockManager, peer: LockManager, backend: MemoryBackend, name: str) -> None:
    async with locks.lock(name) as lease:
        assert lease.name == name
        assert len(lock_keys(backend)) == 1
        async with peer.lock(name).try_acquire() as other:
            assert other is None
        info = await peer.lock(name).info()
        assert info is not None
        assert info.fence == lease.fence
    assert lock_keys(backend) == []


@pytest.mark.parametrize("name", BAD, ids=repr)
def test_bad_names(name: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_name(name)
    assert caught.value.name or name == ""
    assert "name" in str(caught.value)
    str(caught.value).encode()  # printable, whatever was in the name
    with pytest.raises(ConfigurationError):
        LockManager(MemoryBackend()).lock(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("namespace", ["", "a b", "{a}", "a\n", "a{", "\0", None, 3], ids=repr)
def test_bad_namespaces(namespace: object) -> None:
    with pytest.raises(ConfigurationError, match="namespace"):
        LockManager(MemoryBackend(), namespace=namespace)  # type: ignore[arg-type]


async def test_namespaces_are_apart(backend: MemoryBackend, locks: LockManager) -> None:
    async with (
        LockManager(MemoryBackend(backend), namespace="other") as other,
        locks.lock("a"),
        other.lock("a").acquire(timeout=0) as lease,
    ):
        assert sorted(lock_keys(backend)) == ["aiolock:lock:{a}", "other:lock:{a}"]
        assert lease.depth == 1


@pytest.mark.parametrize("namespace", ["a*b", "*", "a%sb", "a.b"])
@pytest.mark.parametrize("kind", ["lock", "fair", "write", "semaphore", "multi"])
async def test_a_namespace_may_have_any_sign(backend: MemoryBackend, namespace: str, kind: str) -> None:
    """A waiter in another process is told of its turn: no refresh has to find out. Kept by Keys.managers."""
    async with (
        LockManager(backend, namespace=namespace) as here,
        LockManager(MemoryBackend(backend), namespace=namespace) as there,
    ):
        lease = await primitive(here, kind).acquire()
        waiter = asyncio.create_task(primitive(there, kind).acquire())
        await settle(backend)
        await lease.release()
        await settle(backend)  # the clock stands still
        assert waiter.done()
        await (await waiter).release()


def primitive(manager: LockManager, kind: str) -> Any:
    return {
        "lock": lambda: manager.lock("a"),
        "fair": lambda: manager.fair_lock("a"),
        "write": lambda: manager.rw_lock("a").write,
        "semaphore": lambda: manager.semaphore("a", 1),
        "multi": lambda: manager.multi_lock("a", "b"),
    }[kind]()
