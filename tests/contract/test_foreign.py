"""Names whose keys another version of aiolock has written: each use says so, holds nothing, and changes nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiolock import BackendError, Lease, LockManager
from aiolock.recipes import once

from .places import KEYS, Place, until
from .strangers import queued

NAME = "order:42"
NOUNS = {"rw": "read-write lock", "condition": "the condition of lock", "once": "the last run of"}
OLD: dict[str, str | dict[str, str]] = {
    "lock": "m1:1 1795423502547494 0 1 0 1795423532547 vm:26967",
    "semaphore": {"state": "1 1 0 30000 0 1795509932547 3 7 1795423502547494 0 vm:26967", "m1:1": "h 1 1 1 7 0"},
    "rw": {"state": "1 1 0 30000 0 1795509932547 1 7 1795423502547494 0 vm:26967", "m1:1": "h 1 1 1 7 0"},
    "latch": {"left": "2", "total": "3", "by:a": "1"},
    "condition": {"m1:1": "1795423502547494 9795423502547 0"},
    "once": {"fence": "1795423502547494", "started": "1795423502547", "status": "succeeded", "by": "vm:26967"},
}
"""What 0.2 left."""
VERSIONS = ("0.2", "0.4")
pytestmark = pytest.mark.not_polling("the scripts say it, however one waits")

Use = Callable[[LockManager], Awaitable[Any]]


async def work(lease: Lease) -> None:
    """A job."""


async def waiting(locks: LockManager) -> None:
    lock = locks.lock(NAME)
    async with lock:
        await locks.condition(lock).wait(timeout=5.0)


async def notifying(locks: LockManager) -> None:
    lock = locks.lock(NAME)
    async with lock:
        await locks.condition(lock).notify()


def job(locks: LockManager) -> Any:
    return once(locks, NAME, window=60.0, repeat="failed")


USES: dict[str, dict[str, Use]] = {
    "lock": {
        "acquire": lambda locks: locks.lock(NAME).acquire(timeout=5.0),
        "try_acquire": lambda locks: locks.lock(NAME).try_acquire(),
        "fair": lambda locks: locks.fair_lock(NAME).acquire(timeout=5.0),
        "info": lambda locks: locks.lock(NAME).info(),
        "is_locked": lambda locks: locks.lock(NAME).is_locked(),
        "force_release": lambda locks: locks.lock(NAME).force_release(),
        "request_release": lambda locks: locks.lock(NAME).request_release(),
        "multi": lambda locks: locks.multi_lock("a", NAME, "z").acquire(timeout=5.0),
        "try multi": lambda locks: locks.multi_lock("a", NAME, "z").try_acquire(),
        "once": lambda locks: job(locks).run(work),
        "last": lambda locks: job(locks).last(),
    },
    "semaphore": {
        "acquire": lambda locks: locks.semaphore(NAME, 3).acquire(timeout=5.0),
        "try_acquire": lambda locks: locks.semaphore(NAME, 3).try_acquire(),
        "info": lambda locks: locks.semaphore(NAME, 3).info(),
        "set_permits": lambda locks: locks.semaphore(NAME, 3).set_permits(4),
        "force_release": lambda locks: locks.semaphore(NAME, 3).force_release(),
    },
    "rw": {
        "read": lambda locks: locks.rw_lock(NAME).read.acquire(timeout=5.0),
        "write": lambda locks: locks.rw_lock(NAME).write.acquire(timeout=5.0),
        "force_release": lambda locks: locks.rw_lock(NAME).force_release(),
    },
    "latch": {
        "count_down": lambda locks: locks.latch(NAME, 3).count_down(by="b"),
        "count": lambda locks: locks.latch(NAME, 3).count(),
        "wait": lambda locks: locks.latch(NAME, 3).wait(timeout=5.0),
        "delete": lambda locks: locks.latch(NAME, 3).delete(),
    },
    "condition": {"wait": waiting, "notify": notifying},
    "once": {
        "run": lambda locks: job(locks).run(work),
        "last": lambda locks: job(locks).last(),
        "forget": lambda locks: job(locks).forget(),
    },
}


def key_of(kind: str) -> str:
    names = KEYS.of(kind, NAME)
    return names.state if kind in ("rw", "semaphore") else names.lock


def plant(place: Place, kind: str, version: str) -> None:
    """Let that version have the name."""
    content = OLD[kind] if version == "0.2" else {"version": version, "owner": "m1:1", "left": "2", "state": "new"}
    place.side.delete(key_of(kind))
    if isinstance(content, str):
        place.side.set(key_of(kind), content)
    else:
        place.side.hset(key_of(kind), content)


def kept(place: Place, kind: str) -> object:
    """What is at the key, and how long it stays."""
    try:
        content: object = place.side.hash(key_of(kind))
    except Exception:
        content = place.side.get(key_of(kind))
    return content, place.side.pttl(key_of(kind)) // 60_000


def message(kind: str, version: str) -> str:
    noun = NOUNS.get(kind, kind)
    return (
        f"{noun} {NAME!r} is used by an aiolock with wire format {version}, and this one reads only 0.3: stop the "
        f"processes of that version and delete the key {key_of(kind)!r}, or give one of the versions a namespace of "
        "its own"
    )


@pytest.mark.parametrize("kind", USES)
async def test_each_use_says_so(place: Place, locks: LockManager, kind: str) -> None:
    for version in VERSIONS:
        plant(place, kind, version)
        before = kept(place, kind)
        for use, begin in USES[kind].items():
            with pytest.raises(BackendError) as caught:
                await begin(locks)
            assert (str(caught.value), caught.value.transient) == (message(kind, version), False), use
            assert NAME in caught.value.name
            assert kept(place, kind) == before, use
            for name in ("a", "z") if "multi" in use else (NAME,) if kind in ("condition", "once") else ():
                assert place.gone(name), use


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["lock", "semaphore", "rw"])
async def test_a_holder_is_told(place: Place, locks: LockManager, kind: str, version: str) -> None:
    """Its renewal is one of many in a request; none of them is taken for a loss."""
    lock: Any = {"lock": locks.lock, "rw": lambda name: locks.rw_lock(name).write}.get(kind, locks.semaphore)(
        *([NAME, 1] if kind == "semaphore" else [NAME])
    )
    async with locks.lock("other") as other:
        lease = await lock.acquire()
        plant(place, kind, version)
        with pytest.raises(BackendError, match=re.escape(message(kind, version))):
            await lease.renew()
        await other.renew()
        place.side.delete(key_of(kind))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["lock", "semaphore"])
async def test_a_waiter_is_told(place: Place, others: LockManager, kind: str, version: str) -> None:
    """Once it counts as dead there. Guards that the part of a batch that was refused is an error of its waiter."""
    async with place.manager(ttl=place.ttl, liveness=0.5) as locks:
        mine, theirs = (one.lock(NAME) if kind == "lock" else one.semaphore(NAME, 1) for one in (locks, others))
        lease = await theirs.acquire()
        waiter = asyncio.ensure_future(mine.acquire())
        await (until(lambda: place.waiting(NAME)) if kind == "lock" else queued(theirs))
        plant(place, kind, version)
        locks._runtime.queue_entries.verify()
        async with asyncio.timeout(10.0):
            with pytest.raises(BackendError, match=re.escape(message(kind, version))):
                await waiter
        place.side.delete(key_of(kind))
        with pytest.raises(Exception):  # noqa: B017, PT011 - it is gone
            await lease.release()


async def test_what_is_no_state_of_any_version(place: Place, locks: LockManager) -> None:
    place.side.set(key_of("lock"), "another program's text")
    with pytest.raises(BackendError, match=r"WRONGTYPE.*choose another name or namespace"):
        await locks.lock(NAME).acquire()
    assert place.side.get(key_of("lock")) == "another program's text"


async def test_once_its_key_is_deleted_the_name_is_ours(place: Place, locks: LockManager) -> None:
    plant(place, "latch", "0.2")
    place.side.delete(key_of("latch"))
    assert await locks.latch(NAME, 3).count() == 3
