"""What a shell does for a job, `run` does for its command: it passes signals on, and lends the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator

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


# Its standard input ends with our process, however that ends. This needs no Linux, and reaches the whole group.
_KEEPER = 'trap "" HUP INT QUIT TERM; read -r group && ! read -r _ && kill -KILL "-$group"'


class Keeper:
    """Kills the command if `run` itself is killed: no one else would stop it when the lock expires.

    A shell waits for the end of this process; start it before the command. Without a shell it does nothing.
    """

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
            )  # fmt: skip

    def keep(self, group: int) -> None:
        """Kill this process group from now on, if this process ends without `end()`."""
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # someone killed it
                self._shell.stdin.write(f"{group}\n".encode())
                self._shell.stdin.flush()

    def end(self) -> None:
        """There is nothing to kill any more."""
        if self._shell is not None:
            self._shell.kill()  # before its input ends
            self._shell.wait()
            if self._shell.stdin is not None:
                with contextlib.suppress(OSError):
                    self._shell.stdin.close()
