"""A connection to a file, which a child that is forked cannot use, nor close."""

from __future__ import annotations

import os
import sqlite3
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import ConfigurationError
from ..transactional.engine import Unavailable


class Link(sqlite3.Connection):
    """A connection that is known from before it begins.

    The kernel's locks are those of a process, and SQLite's library keeps account of them for each file, by device and
    inode. A child inherits that account, and not the locks: whatever it opened would not be locked. Not even to close
    what is inherited is safe, so it leaks.

    Args:
        file: without symbolic links.

    Raises:
        Unavailable: this process was forked while it was open.
    """

    def __init__(self, file: Path, **options: Any) -> None:
        self._file = file
        self._refuse_inherited()
        _open.add(self)
        super().__init__(file, **options)
        self._inode = _inode(file)  # it may have been made

    def _refuse_inherited(self) -> None:
        self._inode = _inode(self._file)
        for link in _inherited:
            if link._inode == self._inode and (self._inode is not None or link._file == self._file):
                what = "this process was forked while it was open, so it cannot lock it"
                remedy = "close the manager before the fork, or start a new program, as multiprocessing's spawn does"
                raise Unavailable(ConfigurationError("", f"{self._file}: {what}: {remedy}"))

    def close(self) -> None:
        """Close it, if it is this process's own."""
        if self not in _inherited:
            super().close()
            _open.discard(self)


_open: weakref.WeakSet[Link] = weakref.WeakSet()
_inherited: list[Link] = []


def _inode(file: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.stat(file)
        return found.st_dev, found.st_ino
    return None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _inherited.extend(_open))
