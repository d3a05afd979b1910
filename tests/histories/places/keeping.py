"""A server that finds its data again after a SIGKILL, unless they are taken away."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

import redis

from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.stepped_clock import POSSIBLE, SteppedClock

from .waiting import NotWhole

PATIENCE = 5.0
"""Seconds within which a server follows its clock."""
LATE = 1.5
"""Seconds within which a server says what time it is, which it does in whole ones."""


class KeepingServer:
    """A server with an append-only file.

    Args:
        folder: for its data; exists.

    Attributes:
        server: the process.
        link: a blocking client.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clock: SteppedClock | None = None
        if POSSIBLE:
            own = folder.with_name(f"{folder.name}-clock")
            own.mkdir()
            self._clock = SteppedClock(own)
        # Without fsync a write is with the system before its reply is sent: only a crash of the machine would lose it.
        with self._worn():
            self.server = RedisServer.start("--dir", str(folder), "--appendonly", "yes", "--appendfsync", "no")
        self.link: redis.Redis = redis_cli.client(self.server.url)

    def restart(self, empty: bool) -> None:
        """Start it again after a SIGKILL."""
        if empty:
            for path in self._folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        with self._worn():
            self.server.restart()

    def step(self, seconds: float) -> None:
        """Set its wall clock ahead of this machine's by so much.

        Raises:
            NotWhole: it does not follow: it was built so that no library comes before its own.
        """
        assert self._clock is not None
        self._clock.step(seconds)
        until = time.monotonic() + PATIENCE
        while abs((ahead := self._ahead()) - seconds) > LATE and time.monotonic() < until:
            time.sleep(0.02)  # it looks at its clock some ten times a second
        if abs(ahead - seconds) > LATE:
            raise NotWhole(f"the server's clock is {ahead:.0f} s ahead, not {seconds:.0f} s: it cannot be stepped")

    def _ahead(self) -> float:
        return float(self.link.time()[0]) - time.time()  # type: ignore[index]

    def _worn(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._clock is None else self._clock.worn()

    def clients(self) -> int:
        """How many clients are connected, besides `link`."""
        return len(self.link.client_list()) - 1

    def close(self) -> None:
        self.link.close()
        self.server.kill()
        self.server.stop()
