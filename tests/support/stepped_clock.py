"""A wall clock of a server's own, which a test steps, as an administrator or a bad NTP server does."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .preloaded import POSSIBLE as POSSIBLE
from .preloaded import Preloaded


class SteppedClock:
    """For servers that are started while it is `worn`; before the first step it is right.

    Args:
        folder: for the library and the step; exists.
    """

    def __init__(self, folder: Path) -> None:
        self._preloaded = Preloaded(folder, "stepped_clock")

    def step(self, seconds: float) -> None:
        """From now on it is ahead of this machine's by so much."""
        self._preloaded.set(round(seconds * 1000))

    @contextlib.contextmanager
    def worn(self) -> Iterator[None]:
        """Processes that are started inside have it."""
        before = {name: os.environ.get(name) for name in self._preloaded.environment}
        os.environ |= self._preloaded.environment
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
