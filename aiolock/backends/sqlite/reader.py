"""What is in a file, for those who only look."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ...errors import BackendError
from ...scripts.view import Command
from ..reader import Reader
from ..transactional.engine import Unavailable
from ..transactional.replies import SCAN, Page, keys_of, page_of, replies
from .clock import seen_us
from .file import LockFile
from .rows import load

PATIENCE = 4.0
"""Seconds for each answer, if nobody writes meanwhile."""


class FileReader(Reader):
    """Answers the commands of a server, from the rows of a file; changes none of them.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.address: str = str(path.absolute())
        self.ahead_us: int = 0
        self.moving: int = 0
        self._shares = False
        self._file = LockFile(path.absolute(), PATIENCE, lambda: False)
        self._alone = threading.Lock()  # a read that was cancelled goes on in its thread
        self._link: sqlite3.Connection | None = None

    async def read(self, commands: Sequence[Command]) -> list[object]:
        """See `Reader.read`.

        Raises:
            AiolockError: the file cannot be used.
        """
        try:
            return await asyncio.to_thread(self._read, commands)
        except Unavailable as why:
            raise why.error from why.__cause__

    async def close(self) -> None:
        """Let go of the file."""
        await asyncio.to_thread(self._forget)

    def _read(self, commands: Sequence[Command]) -> list[object]:
        with self._alone:
            link = self._use()
            try:
                return self._file.patiently(link, lambda: self._replies(link, commands))
            except sqlite3.Error as error:
                self._close()
                raise self._file.unavailable(error) from error

    def _forget(self) -> None:
        with self._alone:
            self._close()

    def _use(self) -> sqlite3.Connection:
        """Open it, even if another file is there by now."""
        with contextlib.suppress(Unavailable):
            if self._link is not None:
                self._file.check()
                return self._link
        self._close()
        if not self._file.path.exists():
            raise Unavailable(BackendError("", f"there is no file {self.address}"))
        self._link = self._file.connect()
        return self._link

    def _close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _replies(self, link: sqlite3.Connection, commands: Sequence[Command]) -> list[object]:
        """From a snapshot of what they name: it holds up nobody, and is short, so that the log need not grow for it."""
        link.execute("BEGIN")
        try:
            now = seen_us(link)
            rows = load(link, keys_of(commands))
            scanned = {one: _keys_on(link, now, page_of(one)) for one in commands if one[0] == SCAN}
            link.execute("COMMIT")
        finally:
            if link.in_transaction:
                link.execute("ROLLBACK")
        self.ahead_us = now - time.time_ns() // 1000
        return replies(now, rows, commands, scanned)


def _keys_on(link: sqlite3.Connection, now_us: int, page: Page) -> list[str]:
    query = "SELECT key FROM aiolock WHERE key > ? AND (expires_us IS NULL OR expires_us > ?) ORDER BY key LIMIT ?"
    return [key for (key,) in link.execute(query, (page.after, now_us, page.most))]
