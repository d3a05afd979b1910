"""Where a row is measured: a server, a loop, CPUs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from .scale import Scale


@dataclass(frozen=True, slots=True)
class Stage:
    """What a row gets; it goes to other processes as keywords.

    Attributes:
        url: the server's.
        server_pid: its process, if it is ours and on this machine.
        quick: a quick look, not the whole.
        loop: "asyncio" or "uvloop".
        python: the interpreter of further processes.
    """

    url: str
    server_pid: int | None
    quick: bool
    loop: str = "asyncio"
    python: str = sys.executable

    @property
    def scale(self) -> Scale:
        """How much is measured."""
        return Scale.of(self.quick)

    def as_json(self) -> dict[str, object]:
        """Its keywords."""
        return asdict(self)

    @property
    def unpinnable(self) -> str:
        """Why client and server cannot share one CPU here; empty if they can."""
        if not hasattr(os, "sched_setaffinity"):
            return "not measured: this system cannot bind a process to a CPU"
        if self.server_pid is None:
            return "not measured: the server is not a process of ours"
        return ""

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Bind client and server to one CPU, so that the server's parallel work cannot hide the client's cost."""
        assert self.server_pid is not None
        before = os.sched_getaffinity(0)
        server_before = os.sched_getaffinity(self.server_pid)
        one = {max(before)}
        try:
            os.sched_setaffinity(0, one)
            os.sched_setaffinity(self.server_pid, one)
            yield
        finally:
            os.sched_setaffinity(0, before)
            os.sched_setaffinity(self.server_pid, server_before)
