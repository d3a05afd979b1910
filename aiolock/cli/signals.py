"""Signals to `run`: before its command has begun they end the wait, and then they go to the command."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from types import TracebackType

_ENDING = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM") if hasattr(signal, name))
_PASSED = tuple(
    getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTSTP") if hasattr(signal, name)
)


class Signals:
    """Catches them while it is entered. What was ignored before, as under nohup, stays ignored, by the command too.

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
