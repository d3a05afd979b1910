"""What a shell does for a job, `run` does for its command: it passes signals on, and lends the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator

from ..clock import SystemClock

_ENDING = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM") if hasattr(signal, name))
_PASSED = tuple(
    getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTSTP") if hasattr(signal, name)
)


class Signals:
    """Signals to `run`: before its command has begun they end the wait, and then they go to the command.

    It catches them while it is entered. What was ignored before, as under nohup, stays ignored, by the command too.

    Attributes:
        ended_by: the signal that ended the wait, or the last one of those that was passed on; None if there was none.
    """

    def __init__(self) -> None:
        self.ended_by: int | None = None
        self._caught: list[int] = []
        self._pass_on: Callable[[int], object] | None = None
        self._waiting: asyncio.Task[object] | None = None

    def __enter__(self) -> Signals:
        self._waiting = asyncio.current_task()
        self._catch(*_ENDING)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in self._caught:
            loop.remove_signal_handler(number)

    def pass_to(self, target: Callable[[int], object]) -> None:
        """From now on they are for the command.

        Raises:
            asyncio.CancelledError: one has just ended the wait.
        """
        if self.ended_by is not None:
            raise asyncio.CancelledError
        self._pass_on = target
        self._catch(*_PASSED)

    def stop_here(self) -> None:
        """Stop our process group as Ctrl-Z does; returns when it continues, or at once if no shell could continue it:
        then the kernel does not stop it.
        """
        if signal.SIGTSTP in self._caught:
            loop = asyncio.get_running_loop()
            loop.remove_signal_handler(signal.SIGTSTP)
            os.killpg(os.getpgrp(), signal.SIGTSTP)
            loop.add_signal_handler(signal.SIGTSTP, self._received, signal.SIGTSTP)

    def _catch(self, *numbers: int) -> None:
        loop = asyncio.get_running_loop()
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._received, number)
                self._caught.append(number)

    def _received(self, number: int) -> None:
        if number in _ENDING:
            self.ended_by = number
        if self._pass_on is not None:
            self._pass_on(number)
        elif self._waiting is not None:
            self._waiting.cancel()


class Terminal:
    """The terminal of this session, if there is one: it is lent to the command as a shell lends it to a job.

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


_ORDER = struct.Struct("iidd")
# Its standard input ends with our process, however that ends. Needs no Linux, no shell, and reaches the whole group.
_KEEPER = """
import os, select, signal, struct, time

def send(number):
    try:
        os.killpg(group, number)
    except OSError:
        pass

for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
group, due = 0, []
while True:
    left = min(due[0][0] - time.clock_gettime(clock), 1.0) if due else None
    if left is None or left > 0:
        if select.select([0], [], [], left)[0]:
            order = os.read(0, struct.calcsize("iidd"))
            if not order:
                break
            group, ending, ask, kill = struct.unpack("iidd", order)
            due = [(ask, (ending, signal.SIGCONT)), (kill, (signal.SIGKILL,))]
    else:
        for number in due.pop(0)[1]:
            send(number)
if group:
    send(signal.SIGKILL)
"""


class Keeper:
    """Ends the command when the lock expires, also while `run` itself stands still; and at once if it was killed.

    Another process waits for that; start it before the command.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-SP", "-c", _KEEPER],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0, bufsize=0,
            )  # fmt: skip
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)  # someone may have stopped it

    def keep(self, group: int, ending: int, ask: float, kill: float) -> None:
        """From now on this is the last word, until the next one.

        Args:
            group: the process group that ends with this process, if that ends without `end()`.
            ending: the signal that asks it to end.
            ask: seconds until then.
            kill: seconds until it is killed.
        """
        if self._process is not None and self._process.stdin is not None:
            now = SystemClock().now()
            with contextlib.suppress(OSError):  # someone killed it
                self._process.stdin.write(_ORDER.pack(group, ending, now + ask, now + kill))

    def end(self) -> None:
        """There is nothing to end any more."""
        if self._process is not None:
            self._process.kill()  # before its input ends
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
