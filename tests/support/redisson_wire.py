"""Redisson's wire: every script of it, and what a store keeps of its locks."""

from __future__ import annotations

from collections.abc import Iterator

from aiolock.scripts.redisson import FAIR_FORCE_RELEASE, FORCE_RELEASE, latch, permits, rw
from aiolock.scripts.redisson import __file__ as __file__
from aiolock.scripts.redisson.keys import RedissonKeys
from aiolock.scripts.store import Store, WrongType

SCRIPTS = (*rw.SCRIPTS, *permits.SCRIPTS, *latch.SCRIPTS)
FORCING = (FORCE_RELEASE, FAIR_FORCE_RELEASE, rw.FORCE_RELEASE)
"""Those that end what others hold."""


def kept(store: Store, kind: str, name: str, owner: str) -> int:
    """For how many ms an owner has a name.

    Args:
        store: where it is.
        kind: "redisson", "redisson rw" or "redisson permits".
        name: the name.
        owner: who has it.
    """
    keys = RedissonKeys(name)
    if kind == "redisson permits":
        return max(0, (store.zscore(keys.permits, f"{owner}#1") or 0) - store.wall_us() // 1000)
    if store.hget(name, owner) and kind == "redisson rw":
        return max(0, min(store.pttl(name), store.pttl(keys.timeout(owner))))
    if store.hget(name, owner) or store.hget(name, f"{owner}:write"):
        return store.pttl(name)
    return 0


def owners(store: Store, key: str) -> list[str]:
    """Who holds a lock, or one side of a read-write lock."""
    return [one.removesuffix(":write") for one in store.hgetall(key) if one != "mode"]


def holders(store: Store) -> Iterator[tuple[str, str]]:
    """The owners of what is held, and its keys."""
    for key in [*store.keys()]:
        if key.startswith("aiolock"):
            continue
        try:
            if key.endswith(":timeout"):
                now_ms = store.wall_us() // 1000
                yield from ((one.partition("#")[0], key) for expires, one in store.ranked(key) if expires > now_ms)
            else:
                yield from ((owner, key) for owner in owners(store, key))
        except WrongType:
            continue


def waiting(store: Store) -> list[str]:
    """The keys of queues of fair locks, which are gone when nobody waits."""
    return [key for key in [*store.keys()] if key.startswith(("redisson_lock_queue:", "redisson_lock_timeout:"))]


def tombstones(store: Store) -> list[str]:
    """The owners that may never come back."""
    return [key.partition("}:")[2] for key in [*store.keys()] if key.startswith("aiolock_dead:")]
