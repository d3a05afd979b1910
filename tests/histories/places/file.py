"""A file, and no server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import redis

from tests.support import locks
from tests.support.filed import FileSide
from tests.support.folder import Folder
from tests.support.preloaded import POSSIBLE, Preloaded

from ..kinds import Kind
from .base import Place

NOBODY = 65534
"""Another user than root."""
SYNC_MS = 300
"""What a throttled disk takes for an fsync."""


class File(Place):
    """A file that may be kept locked by others, or replaced while it is used, on a disk that may be slow. Half of the
    workers see a boot id of their own, as in a container. If root runs this, they are another user's, too.

    Args:
        path: of the file, in a folder of its own.
        disk: the workers'; None if it cannot be slowed down.
    """

    name = "file"
    kinds: ClassVar = {
        "keep_locked": Kind(3.0, 0.05, 3.0),
        "delete": Kind(1.0, empties=True),
    } | ({"slow_disk": Kind(3.0, 0.5, 4.0)} if POSSIBLE else {})
    crew: ClassVar = {"fork": Kind(2.0)}
    network: ClassVar = {}
    ports: ClassVar[list[int]] = []  # type: ignore[misc]

    def __init__(self, path: Path, disk: Preloaded | None) -> None:
        self._path = path
        self._disk = disk
        self.given = {"url": f"sqlite:///{path}", "boots": True}
        if disk is not None:
            self.given |= {"environment": disk.environment}
        if os.geteuid() == 0:
            self.given |= {"second_user": NOBODY}
        self._make()

    def _make(self) -> None:
        """An empty file, of which SQLite makes a database."""
        made = self._path.with_name("made")
        made.touch()
        if "second_user" in self.given:
            for own in (self._path.parent, made):
                os.chown(own, NOBODY, NOBODY)
        os.replace(made, self._path)

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[File]:
        """Make it; delete it at the end."""
        with Folder() as folder:
            folder.chmod(0o711)
            (folder / "shared").mkdir()
            path = folder / "shared" / "locks.db"
            disk = Preloaded(folder, "slow_disk") if POSSIBLE else None
            place = cls(path, disk)
            with contextlib.closing(FileSide(path)):
                yield place

    def links(self) -> list[redis.Redis]:
        return []

    def clients(self) -> int:
        """The sockets of managers that closed are gone; those of killed ones are removed when a release meets them."""
        return 0

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def held(self) -> list[str]:
        with contextlib.closing(FileSide(self._path)) as side, side.opened() as store:
            return [*locks.held_names(store), *locks.all_waiting(store)]

    def unlimited(self) -> list[str]:
        with contextlib.closing(FileSide(self._path)) as side, side.opened() as store:
            return locks.unlimited(store)

    @asynccontextmanager
    async def keep_locked(self, number: int, seconds: float) -> AsyncIterator[None]:
        """A process stands still in a transaction, or a backup takes its time."""
        link = sqlite3.connect(self._path, timeout=2, isolation_level=None, check_same_thread=False)
        try:
            with contextlib.suppress(sqlite3.OperationalError):  # a worker that was stopped keeps it locked already
                await asyncio.to_thread(link.execute, "BEGIN IMMEDIATE")
            yield
        finally:
            link.close()

    @asynccontextmanager
    async def delete(self, number: int, seconds: float) -> AsyncIterator[None]:
        """The next request of each process goes to a new one."""
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._path}{suffix}")
        self._make()
        yield

    @asynccontextmanager
    async def slow_disk(self, number: int, seconds: float) -> AsyncIterator[None]:
        """Each fsync of a worker takes long."""
        assert self._disk is not None
        self._disk.set(SYNC_MS)
        try:
            yield
        finally:
            self._disk.set(0)
