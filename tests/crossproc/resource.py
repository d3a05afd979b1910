"""What a lock protects."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


class Resource:
    """It checks the fence: a write with a lower one than it has seen is refused.

    Args:
        path: the file with its state.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)

    def write(self, fence: int) -> bool:
        """Write; return False if it is refused."""
        with self.still():
            if fence < int(os.pread(self._file, 32, 0) or b"0"):
                return False
            os.pwrite(self._file, b"%020d" % fence, 0)
            return True

    @contextmanager
    def still(self) -> Iterator[None]:
        """Whether no write is in progress: a process that was stopped during one would hold up all others."""
        import fcntl

        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
