"""What `make docs` checks of the reference: that it has an entry for each public name, and for each member."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from .blocks import ROOT

Missing = Callable[[set[str]], Iterator[str]]


@pytest.fixture
def missing() -> Iterator[Missing]:
    pytest.importorskip("sphinx", reason="of the group `docs`, which `make docs` installs")
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        from complete import missing

        yield missing
    finally:
        del sys.path[0]


def documented(missing: Missing) -> set[str]:
    """The entries of a reference that lacks nothing: those that it asks for, one after the other."""
    entries: set[str] = set()
    while gap := set(missing(entries)):
        entries |= gap
    return entries


def test_a_gap_is_found(missing: Missing) -> None:
    """Each name and each member, also of a base that is not public. Kept by `members`."""
    entries = documented(missing)
    assert {"aiolock.LockManager.lock", "aiolock.sync.LockManager.lock", "aiolock.Lock.acquire"} <= entries
    for name in ("aiolock.LockManager.semaphore", "aiolock.FairLock", "aiolock.recipes.Once.run"):
        assert list(missing(entries - {name})) == [name]


def test_what_only_the_package_uses_is_not_asked_for(missing: Missing) -> None:
    """Kept by INNER; and a member with an entry in a public base needs no other."""
    entries = documented(missing)
    assert entries.isdisjoint(
        {"aiolock.Acquisition.send", "aiolock.Lock.contention", "aiolock.testing.MemoryBackend.aclose"}
    )
    assert list(missing(entries - {"aiolock.FairLock.acquire", "aiolock.events.Lost.name"})) == []
