"""aiolock itself, with everything on, and its other primitives."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from importlib.resources import files
from typing import Any

from aiolock import LockManager

PERMITS = 5
CALL = re.compile(r"redis\.p?call\('(\w+)'(?:, '(NUMSUB)')?", re.IGNORECASE)
"""A command in a script; the server counts PUBSUB by its subcommands."""


def _scripted() -> frozenset[str]:
    folder = files("aiolock.scripts")
    scripts = (file for kind in folder.iterdir() if kind.is_dir() for file in kind.iterdir())
    sources = (script.read_text() for script in scripts if script.name.endswith(".lua"))
    found = (f"{one}|{two}" if two else one for source in sources for one, two in CALL.findall(source))
    return frozenset(name.lower() for name in found)


class Lock:
    """The plain lock: renewed, fenced, guarded, reentrant."""

    settings = "as it comes: renewal, fence, cancellation on loss"
    scripted = _scripted()
    permits = 1

    async def open(self, url: str) -> None:
        """Enter a manager."""
        self.locks: Any = await LockManager(url).__aenter__()

    async def close(self) -> None:
        """Close it."""
        await self.locks.aclose()

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """A lock."""
        return self.locks.lock(name, ttl=ttl)  # type: ignore[no-any-return]


class Clustered(Lock):
    """The same on a Redis Cluster."""

    async def open(self, url: str) -> None:
        """Enter a manager."""
        self.locks = await LockManager.cluster([url]).__aenter__()


class Patient(Lock):
    """For 10,000 tasks that ask at once: the last answer may take longer than the default of 5 s."""

    settings = "request_timeout=60"

    async def open(self, url: str) -> None:
        """Enter a manager."""
        self.locks = await LockManager(url, request_timeout=60.0).__aenter__()


class Fixed(Lock):
    """A lease that is not renewed, to see what happens when the section outlasts it."""

    settings = "renew=False"

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return a lock whose body is cancelled at its deadline."""
        return self.locks.lock(name, ttl=ttl, renew=False)  # type: ignore[no-any-return]


class Fair(Lock):
    """The fair lock."""

    settings = "fair_lock"

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """A fair lock."""
        return self.locks.fair_lock(name, ttl=ttl)  # type: ignore[no-any-return]


class Read(Lock):
    """Readers."""

    settings = "rw_lock(…).read"
    permits = 0

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """A reader's side."""
        return self.locks.rw_lock(name, ttl=ttl).read  # type: ignore[no-any-return]


class Write(Lock):
    """Writers."""

    settings = "rw_lock(…).write"

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """A writer's side."""
        return self.locks.rw_lock(name, ttl=ttl).write  # type: ignore[no-any-return]


class Semaphore(Lock):
    """Several permits, one for each task."""

    settings = f"semaphore(…, {PERMITS})"
    permits = PERMITS

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """One permit."""
        return self.locks.semaphore(name, PERMITS, ttl=ttl)  # type: ignore[no-any-return]


class Multi(Lock):
    """Three names at once."""

    settings = "multi_lock of three names"

    def lock(self, name: str, ttl: float) -> AbstractAsyncContextManager[object]:
        """Return all three, or none."""
        return self.locks.multi_lock(*(f"{name}:{part}" for part in "abc"), ttl=ttl)  # type: ignore[no-any-return]


PRIMITIVES = {
    "fair_lock": Fair,
    "rw_lock, read": Read,
    "rw_lock, write": Write,
    f"semaphore of {PERMITS}": Semaphore,
    "multi_lock of 3": Multi,
}


def offered() -> dict[str, type[Lock]]:
    """Return those that this version has."""
    return {label: kind for label, kind in PRIMITIVES.items() if hasattr(LockManager, label.split()[0].rstrip(","))}
