"""What several processes do, line by line in one file: each line is one `write` in append mode, so none is torn."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class Journal:
    """Appends events.

    Args:
        path: the file, shared by all processes.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, event: str, **fields: Any) -> None:
        """One line, with the time by a clock that all processes of the machine share; `at`, if it was read before."""
        line = {"event": event, "pid": os.getpid(), "at": time.monotonic(), **fields}
        os.write(self._file, (json.dumps(line) + "\n").encode())


def read(path: Path) -> list[dict[str, Any]]:
    """Every event so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Counter:
    """A number in a file, to be read and written non-atomically; a write is one system call, so a kill tears none.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)

    def read(self) -> int:
        return int(os.pread(self._file, 32, 0) or b"0")

    def write(self, value: int) -> None:
        os.pwrite(self._file, b"%020d" % value, 0)


class Resource:
    """What a lock protects, and defends itself by the fence: a write with a lower one than it has seen is refused.

    Args:
        path: the file it is kept in.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)

    def write(self, fence: int) -> bool:
        """Write; False if it is refused."""
        import fcntl

        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            if fence < int(os.pread(self._file, 32, 0) or b"0"):
                return False
            os.pwrite(self._file, b"%020d" % fence, 0)
            return True
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
