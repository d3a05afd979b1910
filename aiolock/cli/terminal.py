"""The controlling terminal, which is lent to the command of `run` as a shell lends it to a job."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator


class Terminal:
    """The terminal of this session, if there is one.

    A process group that is not in the foreground may not read from it, and Ctrl-C does not reach it.
    """

    def __init__(self) -> None:
        self._tty: int | None = None
        with contextlib.suppress(OSError):
            self._tty = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)

    @property
    def foreground(self) -> int:
        """The process group in the foreground; 0 without a terminal."""
        if self._tty is None:
            return 0
        try:
            return os.tcgetpgrp(self._tty)
        except OSError:  # it hung up
            return 0

    def lend(self, group: int) -> bool:
        """Put `group` in the foreground, if our own group is there; return whether it is there now."""
        if self.foreground == os.getpgrp():
            self._give(group)
        return self.foreground == group

    def take_back(self, group: int) -> None:
        """Put our own group in the foreground, if `group` is there."""
        if self.foreground == group:
            self._give(os.getpgrp())

    def close(self) -> None:
        """Forget it."""
        if self._tty is not None:
            os.close(self._tty)
            self._tty = None

    def _give(self, group: int) -> None:
        assert self._tty is not None
        with _without(signal.SIGTTOU), contextlib.suppress(OSError):  # it stops who gives from the background
            os.tcsetpgrp(self._tty, group)


@contextlib.contextmanager
def _without(number: signal.Signals) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
