"""What several processes do, line by line in one file: each line is one `write` in append mode, so none is torn."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

NOTICED = 0.1
"""Seconds in which a process that stood still notices its loss, and notes that it left."""


class Journal:
    """Appends events.

    Args:
        path: the file, shared by all processes.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, event: str, **fields: Any) -> None:
        """Write one line, with the time of a clock that all processes of the machine share, or `at` if it was read
        before.
        """
        line = {"event": event, "pid": os.getpid(), "at": time.monotonic(), **fields}
        os.write(self._file, (json.dumps(line) + "\n").encode())

    async def watch(self) -> None:
        """Note when this process stood still, because it was stopped or because the machine stalled; runs until
        cancelled.
        """
        while True:
            since = time.monotonic()
            try:
                await asyncio.sleep(0.01)
            finally:
                if time.monotonic() - since > 0.05:
                    self.note("stalled", since=since, until=time.monotonic())


class Events:
    """What a journal says. Tests read it again and again, so it reads each line only once.

    Args:
        path: the file, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._events: list[dict[str, Any]] = []

    def so_far(self) -> list[dict[str, Any]]:
        """Every event so far."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                found = file.read()
            lines = found[: found.rfind(b"\n") + 1]  # complete lines only
            self._read += len(lines)
            self._events += [json.loads(line) for line in lines.splitlines()]
        return self._events.copy()


class Stall(NamedTuple):
    """From when until when a process could notice no loss."""

    pid: int
    since: float
    until: float


class Stalls(list[Stall]):
    """The stalls among some events."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        super().__init__(
            Stall(event["pid"], event["since"], event["until"] + NOTICED)
            for event in events
            if event["event"] == "stalled"
        )

    def during(self, event: dict[str, Any], pid: int | None = None) -> Stall | None:
        """The stall in which an event happened: of its own process, or of `pid`."""
        pid = event["pid"] if pid is None else pid
        return next((stall for stall in self if stall.pid == pid and stall.since <= event["at"] <= stall.until), None)


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


class Resource:
    """What a lock protects. It checks the fence: a write with a lower one than it has seen is refused.

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
