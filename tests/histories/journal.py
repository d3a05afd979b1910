"""What several processes do, line by line in one file: each line is one `write` in append mode, so none is torn, and
what was written outlives a SIGKILL.

A line is a JSON object: the `event`, the `pid` of the writer, `at` (seconds of CLOCK_MONOTONIC, which all processes of
a machine share), and what the event has of its own. The events of one operation carry its number, `op`:

| event | fields | when |
| --- | --- | --- |
| `began` | `kind`, `names`; `weight`, `permits`, `outer`, `timeout`, `ticket`, `by`, `within` | before the call |
| `queued` | | this process was told that it has a place in the server's queue |
| `granted` | `fence`, `lost`, `slots`, `kept_until` | the first line of the body |
| `kept` | `weight` | it gave back part of its permits |
| `write` | `since`, `accepted`, `fence`, `name` | the resource has answered; None: it raised, so it may have counted |
| `left` | | the last line of the body, before the release is written |
| `detached` | `ticket` | `detach()` gave this ticket |
| `reserved` | `ticket` | `reserve()` gave this ticket |
| `told` | `run`, `raised` | a call that may have joined another returned what that one did, or raised it |
| `finished` | | the job is done, and will not be run again |
| `counted` | `left` | a latch answered how many counts are missing |
| `ended` | `how`, `reason` | the call is over: "done", "lost", "cancelled", "missed" (with the error's name) |

Events of a process, and of whoever runs them all:

| event | fields | when |
| --- | --- | --- |
| `plan` | any | first: what the processes use, and how (seed, place, ttl, liveness, processes, ...) |
| `ready` | | a process begins |
| `failed` | `text` | something happened in it that must not |
| `stalled` | `since`, `until` | its loop, or all of it, stood still |
| `killed` | `process` | before a SIGKILL is sent to it |
| `fault` | `number`, `what`, `excuses` | before it begins; two may be inside until `excuses` s after its end |
| `mended` | `number` | it has ended |
| `healed` | | nothing is wrong any more |
| `total` | `count` | the resource's own count, at the end |
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

Event = dict[str, Any]
PAUSE = 0.01
STILL = 0.05
"""Seconds: a loop that wakes up so much too late stood still."""


class Journal:
    """Appends events.

    Args:
        path: the file, shared by all processes.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._numbers = itertools.count(1)

    def note(self, event: str, **fields: Any) -> None:
        """Write one line, with the time, or with `at` if it was read before."""
        line = {"event": event, "pid": os.getpid(), "at": time.monotonic(), **fields}
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def begin(self, kind: str, *names: str, **fields: Any) -> Operation:
        """Note that an operation begins.

        Args:
            kind: "lock", "fair", "multi", "read", "write", "permits", "resume", "join", "reserve", "job",
                "unreserve", "force", "count", "look" or "wait".
            names: of what.
            fields: how: the `weight` and the `permits` of a semaphore, or the `permits` of a latch (its count); the
                number of the `outer` operation that has the lock already; the `timeout`; the `ticket`; `by` whom;
                `within` how many seconds.
        """
        operation = Operation(self, next(self._numbers))
        operation.note("began", kind=kind, names=names, **fields)
        return operation

    async def watch(self) -> None:
        """Note when this process stood still, because it was stopped or because the machine stalled; runs until
        cancelled.
        """
        while True:
            since = time.monotonic()
            try:
                await asyncio.sleep(PAUSE)
            finally:
                if time.monotonic() - since > STILL:
                    self.note("stalled", since=since, until=time.monotonic())


class Operation:
    """One call, in the journal.

    Args:
        journal: where it is noted.
        number: which operation of its process.
    """

    def __init__(self, journal: Journal, number: int) -> None:
        self._journal = journal
        self.number = number

    def note(self, event: str, **fields: Any) -> None:
        """Write one line about it."""
        self._journal.note(event, op=self.number, **fields)


class Events:
    """What a journal says; each line is read only once, however often one asks.

    Args:
        path: the file, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._events: list[Event] = []

    def so_far(self) -> list[Event]:
        """Every event so far, in the order in which they were written."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                found = file.read()
            lines = found[: found.rfind(b"\n") + 1]  # complete lines only
            self._read += len(lines)
            self._events += [json.loads(line) for line in lines.splitlines()]
        return self._events.copy()
