"""A wall clock of a server's own, which a test steps, as an administrator or a bad NTP server does."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
POSSIBLE = sys.platform == "linux" and shutil.which("cc") is not None
"""It needs a C compiler, and a system on which a library can be put in front of others (LD_PRELOAD)."""


class SteppedClock:
    """For servers that are started while it is `worn`; before the first step it is right.

    Args:
        folder: for the library and the step; exists.
    """

    def __init__(self, folder: Path) -> None:
        self._library = folder / "stepped_clock.so"
        self._file = folder / "clock"
        self.step(0.0)
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)

    def step(self, seconds: float) -> None:
        """From now on it is ahead of this machine's by so much."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("q", round(seconds * 1000)))

    @contextlib.contextmanager
    def worn(self) -> Iterator[None]:
        """Processes that are started inside have it."""
        before = {name: os.environ.get(name) for name in ("LD_PRELOAD", "AIOLOCK_CLOCK")}
        os.environ |= {"LD_PRELOAD": str(self._library), "AIOLOCK_CLOCK": str(self._file)}
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
