"""What `make docs` checks of the reference: that it has an entry for each public name, and for each member.

And what it adds: the release in which a name was new.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .blocks import ROOT

Missing = Callable[[set[str]], Iterator[str]]
Since = Any


@pytest.fixture
def missing() -> Iterator[Missing]:
    pytest.importorskip("sphinx", reason="of the group `docs`, which `make docs` installs")
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        from complete import missing

        yield missing
    finally:
        del sys.path[0]


@pytest.fixture
def since() -> Iterator[Since]:
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        yield importlib.import_module("since")
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


def test_every_release_has_its_names(since: Since) -> None:
    """Broken by a release whose names nobody added: their notes would change with the next one."""
    titles = re.findall(r"^## \[(\d.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert [*dict.fromkeys(since.releases().values())] == titles[-2::-1]  # the first was before there was a list
    assert since.since("aiolock.LockManager.open", "0.9.0.dev0") == "0.2"
    assert since.since("aiolock.LockManager.sentinel", "0.9.0.dev0") == "0.3"
    assert since.since("aiolock.LockManager.new", "0.9.0.dev0") == "0.9"


def test_a_release_adds_what_no_other_had(since: Since) -> None:
    documented = {"aiolock.Lock", "aiolock.Lock.acquire", "aiolock.Lock.new", "aiolock.New", "aiolock.New.run"}
    assert since.add("0.9.0", documented) == "0.9.0 aiolock.Lock new\n0.9.0 aiolock.New run\n"
