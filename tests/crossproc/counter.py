"""What an increment needs a lock for."""

from __future__ import annotations

import os


class Counter:
    """A number in a file, read and written non-atomically; a write is one system call, so that a kill tears none.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)

    def read(self) -> int:
        return int(os.pread(self._file, 32, 0) or b"0")

    def write(self, value: int) -> None:
        os.pwrite(self._file, b"%020d" % value, 0)
