"""A file, and no server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import redis

from tests.support import locks
from tests.support.filed import FileSide
from tests.support.folder import Folder

from ..kinds import Kind
from .base import Place


class File(Place):
    """A file that may be kept locked by others, or deleted while it is used.

    Args:
        path: of the file.
    """

    name = "file"
    kinds: ClassVar[Mapping[str, Kind]] = {
        "keep_locked": Kind(3.0, 0.05, 3.0),
        "delete": Kind(1.0, empties=True),
    }
    ports: ClassVar[list[int]] = []  # type: ignore[misc]

    def __init__(self, path: Path) -> None:
        self._path = path
        self.given = {"url": f"sqlite:///{path}"}

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[File]:
        """Make it; delete it at the end."""
        with Folder() as folder:
            path = folder / "locks.db"
            with contextlib.closing(FileSide(path)):
                yield cls(path)

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
        link = sqlite3.connect(self._path, timeout=20, isolation_level=None, check_same_thread=False)
        try:
            await asyncio.to_thread(link.execute, "BEGIN IMMEDIATE")
            yield
            link.execute("ROLLBACK")
        finally:
            link.close()

    @asynccontextmanager
    async def delete(self, number: int, seconds: float) -> AsyncIterator[None]:
        """The next request of each process goes to a new one."""
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._path}{suffix}")
        yield
