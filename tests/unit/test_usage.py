"""Mistakes that people make, and what the errors tell them to do instead."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aiolock.sync
from aiolock import ConfigurationError, LockManager
from aiolock.backends.sqlite import path_of
from aiolock.backends.stores import store_of
from aiolock.testing import MemoryBackend
from aiolock.usage import usage


def managers() -> list[Any]:
    return [LockManager(MemoryBackend()), aiolock.sync.LockManager(MemoryBackend())]


CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "lock('a', 30)": (lambda locks: locks.lock("a", 30), "too many .*: write locks.lock('a', ttl=30), or"),
    "lock()": (lambda locks: locks.lock(), "missing .* 'name': write locks.lock('a'"),
    "fair_lock('a', 30)": (lambda locks: locks.fair_lock("a", 30), "write locks.fair_lock('a', ttl=30)"),
    "rw_lock('a', 30)": (lambda locks: locks.rw_lock("a", 30), "write locks.rw_lock('a', ttl=30)"),
    "semaphore('a')": (lambda locks: locks.semaphore("a"), "missing .* 'permits': write locks.semaphore('a', 5)"),
    "latch('a')": (lambda locks: locks.latch("a"), "missing .* 'count': write locks.latch('a', 3)"),
    "acquire(2.0)": (lambda locks: locks.lock("a").acquire(2.0), "too many .*: write lock.acquire(timeout=2.0)"),
    "try_acquire(2.0)": (lambda locks: locks.lock("a").try_acquire(2.0), "write lock.try_acquire(), which never waits"),
    "semaphore.acquire(1, 2.0)": (
        lambda locks: locks.semaphore("a", 5).acquire(1, 2.0),
        "write semaphore.acquire(2, timeout=2.0)",
    ),
    "acquire(blocking=False)": (
        lambda locks: locks.lock("a").acquire(blocking=False),
        "unexpected keyword argument 'blocking': call try_acquire(), which never waits",
    ),
    "acquire(priority=3)": (
        lambda locks: locks.lock("a").acquire(priority=3),
        "'priority': pass priority= where the lock is made: locks.lock(name, priority=...)",
    ),
    "acquire(tiemout=2)": (lambda locks: locks.lock("a").acquire(tiemout=2), "'tiemout': there are timeout, owner"),
    "try_acquire(tiemout=2)": (lambda locks: locks.lock("a").try_acquire(tiemout=2), "'tiemout': there are none"),
    "lock('a', blocking=False)": (lambda locks: locks.lock("a", blocking=False), "call lock.try_acquire()"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_names_the_right_one(call: str) -> None:
    """Of the asynchronous manager, and of that for threads. Kept by `usage`."""
    do, told = CALLS[call]
    for locks in managers():
        with pytest.raises(TypeError) as caught:
            do(locks)
        assert re.search(re.sub(r"[()]", r"\\\g<0>", told), str(caught.value)), call


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"host": "localhost"}, "'host': write it into the URL"),
        ({"url": "redis://localhost"}, "'url': give it first and without a name"),
        ({}, "missing a required argument: 'source': write LockManager"),
    ],
)
def test_a_manager_is_made_with_a_url(arguments: dict[str, Any], told: str) -> None:
    """Kept by `usage` of LockManager.__init__, and its HINTS."""
    with pytest.raises(TypeError, match=told):
        LockManager(**arguments)
    with pytest.raises(TypeError, match="'timeout': pass acquire_timeout= for"):
        LockManager("redis://localhost", timeout=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("url", ["mssql://localhost/x", "oracle://u:secret@localhost/x", "SQLITE:///x.db"])
def test_a_url_of_something_else_is_named_with_those_that_work(url: str) -> None:
    """But not what follows its scheme, which may be a password."""
    with pytest.raises(ConfigurationError) as caught:
        LockManager(url)
    told = str(caught.value)
    assert told.startswith(f"{url.partition('//')[0]}// is not supported: write redis://")
    assert (
        "postgresql://user@host/database, mysql://user@host/database, etcd://host:port, "
        "zookeeper://host:port, or memory:// for tests" in told
    )
    assert "secret" not in told


@pytest.mark.parametrize("scheme", ["redis", "rediss", "valkey"])
@pytest.mark.parametrize(
    "rest",
    [
        ":pa/secret@host:6379/0",
        ":12/secret@host",
        "me:12/secret@host:6379/0",
        "me@x:12/secret@host",
        ":1#secret@host",
        "me:pa#secret@host",
        ":12?secret@host:6379/0",
        "me:pa?secret@host",
        ":[secret]@host",
        ":pa/#?secret@host:6379",
    ],
)
def test_a_password_that_ends_where_the_url_says(scheme: str, rest: str) -> None:
    """Some of these would be taken for port 12 of another host. Kept by `_CUT_OFF`."""
    with pytest.raises(ConfigurationError, match=r"percent-encode it: / is %2F, \? is %3F, # is %23") as caught:
        LockManager(f"{scheme}://{rest}")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("rest", ["user:p@ss:word@host:6379/0", "host?client_name=a@b&password=p@ss", "h:6379/0#x"])
def test_other_special_characters_of_a_url(rest: str) -> None:
    LockManager(f"redis://{rest}")


def test_text_that_is_no_url_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match=r"^not a URL that aiolock knows: write redis://") as caught:
        LockManager("secret@localhost:6379")
    assert "secret" not in str(caught.value)


def test_names_of_a_multi_lock_are_arguments() -> None:
    with pytest.raises(ConfigurationError, match=r"write multi_lock\(\*names\)"):
        LockManager(MemoryBackend()).multi_lock(["a", "b"])  # type: ignore[arg-type]


async def test_the_wrong_kind_of_with() -> None:
    """Kept by AsyncOnly, SyncOnly and TwoSides, each as a base of what it is a base of."""
    tasks, threads = managers()
    for entered in (tasks, tasks.lock("a"), tasks.rw_lock("a").read, tasks.semaphore("a", 2)):
        with pytest.raises(TypeError, match="needs `async with`, not `with`"):
            entered.__enter__()
        with pytest.raises(TypeError, match="needs `async with`, not `with`"), entered:
            pass
    for entered in (threads, threads.lock("a"), threads.rw_lock("a").read, threads.semaphore("a", 2)):
        with pytest.raises(TypeError, match="needs `with`, not `async with`"):
            async with entered:
                pass
    for entered in (tasks.rw_lock("a"), threads.rw_lock("a")):
        with pytest.raises(TypeError, match="enter its `read` or `write`"):
            async with entered:
                pass
        with pytest.raises(TypeError, match="enter its `read` or `write`"), entered:
            pass


def test_an_acquisition_that_nobody_awaits_is_no_answer() -> None:
    """Neither `if lock.acquire():` nor `with lock.acquire():`. Kept by Acquisition.__bool__ and AsyncOnly."""
    lock = LockManager(MemoryBackend()).lock("a")
    for begin in (lock.acquire, lock.try_acquire):
        acquisition: Any = begin()
        with pytest.raises(TypeError, match="is no answer yet: await it"):
            assert acquisition
        with pytest.raises(TypeError, match="needs `async with`"), acquisition:
            pass
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "was never awaited"
            del acquisition


def test_the_url_of_a_driver_or_of_sentinels() -> None:
    """As ORMs and other clients write them. Kept by store_of, and by _of_url."""
    assert store_of("sqlite+aiosqlite:///x.db") == "sqlite"
    assert path_of("sqlite+aiosqlite:////var/x.db") == Path("/var/x.db")
    for url in ("redis+sentinel://a:26379/mymaster", "redis-sentinel://u:secret@a"):
        with pytest.raises(ConfigurationError, match=r"use LockManager\.sentinel\(") as caught:
            LockManager(url)
        assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="a port is at most 65535"):
        LockManager("redis://localhost:99999")


ATTRIBUTES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "locked": (lambda locks: locks.lock("a"), "call await lock.is_locked()"),
    "extend": (lambda locks: locks.lock("a"), "its lease has it: `async with lock as lease`, then await lease.renew()"),
    "reacquire": (lambda locks: locks.fair_lock("a"), "its lease has it: `async with lock as lease`, then await lease"),
    "renew": (lambda locks: locks.lock("a"), "its lease has it: `async with lock as lease`, then await lease.renew()"),
    "fence": (lambda locks: locks.rw_lock("a").write, "its lease has it: `async with lock as lease`, then lease.fence"),
    "token": (lambda locks: locks.lock("a"), "its lease has it: `async with lock as lease`, then lease.fence"),
    "ttl": (
        lambda locks: locks.multi_lock("a", "b"),
        "its lease has it: `async with lock as lease`, then lease.remaining()",
    ),
    "unlock": (lambda locks: locks.lock("a"), "call lock.release()"),
    "is_owned": (lambda locks: locks.lock("a"), "call lock.owned()"),
    "try_lock": (lambda locks: locks.lock("a"), "call lock.try_acquire()"),
    "force_unlock": (lambda locks: locks.lock("a"), "call await lock.force_release()"),
    "reset": (lambda locks: locks.lock("a"), "call await lock.force_release()"),
    "value": (lambda locks: locks.semaphore("a", 2), "call await semaphore.available()"),
    "acquire": (lambda locks: locks, "locks have it: locks.lock(name).acquire()"),
    "is_locked": (lambda locks: locks, "locks have it: await locks.lock(name).is_locked()"),
    "rwlock": (lambda locks: locks, "call locks.rw_lock()"),
    "multilock": (lambda locks: locks, "call locks.multi_lock()"),
    "fairlock": (lambda locks: locks, "call locks.fair_lock()"),
    "disconnect": (lambda locks: locks, "call await locks.close()"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_what_has_another_name_or_is_elsewhere(name: str) -> None:
    """As asyncio, threading, redis-py and others have it. Kept by Renamed.__getattr__: `_NAMES`, `_OF_LEASES`."""
    of, told = ATTRIBUTES[name]
    for locks in managers():
        if locks.__class__.__module__.startswith("aiolock.sync"):
            told = told.replace("await ", "").replace("async ", "")
        assert not hasattr(of(locks), name)
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': {re.escape(told)}") as caught:
            getattr(of(locks), name)
        assert (caught.value.name, type(caught.value.obj)) == (name, type(of(locks)))


async def test_what_a_lease_calls_otherwise() -> None:
    """Kept by Renamed, as a base of both leases and both sides of a read-write lock."""
    async with LockManager(MemoryBackend()) as locks, locks.lock("a") as lease:
        for name, told in (
            ("extend", "await lease.renew()"),
            ("unlock", "lease.release()"),
            ("ttl", "lease.remaining"),
        ):
            with pytest.raises(AttributeError, match=f": call {re.escape(told)}"):
                getattr(lease, name)


def test_what_threads_and_sides_call_otherwise() -> None:
    """Kept by Renamed, too."""
    with aiolock.sync.LockManager(MemoryBackend()) as sync, sync.lock("a") as held:
        lease: Any = held
        with pytest.raises(AttributeError, match=r": call lease\.renew\(\)"):
            lease.extend()
    for locks in managers():
        with pytest.raises(AttributeError, match=r"'acquire': its sides have it: lock\.write\.acquire\(\)"):
            locks.rw_lock("a").acquire()


def test_an_attribute_that_nothing_has() -> None:
    """The interpreter may know a similar one; `hasattr` and copying see what they always saw."""
    for locks in managers():
        for what in (locks, locks.lock("a"), locks.rw_lock("a"), locks.semaphore("a", 2)):
            with pytest.raises(AttributeError, match=r"no attribute 'lockd'$") as caught:
                what.lockd()
            assert caught.value.obj is what


async def test_a_condition_is_entered_as_its_lock_is() -> None:
    tasks, threads = managers()
    with pytest.raises(TypeError, match="needs `async with`, not `with`"), tasks.condition(tasks.lock("a")):
        pass
    with pytest.raises(TypeError, match="needs `with`, not `async with`"):
        async with threads.condition(threads.lock("a")):
            pass


def test_a_type_error_from_inside_is_left_alone() -> None:
    """Kept by the look at the traceback in `usage`."""

    @usage("divide(2, 1)")
    def divide(one: Any, other: Any) -> Any:
        return one / other

    assert divide(2, 1) == 2
    with pytest.raises(TypeError, match="unsupported operand"):
        divide("a", "b")
    with pytest.raises(TypeError, match=r"write divide\(2, 1\)"):
        divide(1, 2, 3)
