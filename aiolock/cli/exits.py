"""How a command ends: its exit code, and one line that says why."""

from __future__ import annotations

import enum
import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from ..errors import AiolockError, BackendError, ConfigurationError, LockLost, NotAcquired, WaitTimeout
from .text import plain


class ExitCode(enum.IntEnum):
    """Exit codes of ours; `run` passes on those of its command."""

    OK = 0
    """Done."""
    NO = 1
    """The answer is no: there is nothing of that name, nobody held it, or the doctor found what must be fixed."""
    USAGE = 2
    """It cannot work as it was written, or the extra is not installed."""
    UNREACHABLE = 69
    """Redis is unreachable or refuses (EX_UNAVAILABLE)."""
    UNWRITTEN = 74
    """What it found could not be written, as on a disk that is full (EX_IOERR)."""
    BUSY = 75
    """Another one has the lock, or the time to wait is over (EX_TEMPFAIL)."""
    LOST = 79
    """The lock was lost while the command ran, and the command was stopped if it had not just ended."""
    OUTLIVED = 80
    """The lock was lost while the command ran, and the command, which runs as another user, could not be stopped."""
    NOT_EXECUTABLE = 126
    """The command was found, but cannot be run."""
    NOT_FOUND = 127
    """The command was not found."""


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_IN_PYTHON = {
    "use LockManager.cluster([url, …])": "add --cluster",
    "use LockManager.sentinel([(host, port), …], service=…)": "add --sentinel and --service",
    "use LockManager(url)": "leave out --cluster, --sentinel and --service",
}
"""Remedies of the library, and what they are here."""


def of_signal(number: int) -> int:
    """The exit code of a process that a signal ended, as shells have it."""
    return 128 + number


def say(text: str) -> None:
    """Tell the user something besides the output."""
    click.echo(f"aiolock: {plain(text)}", err=True)


def leave(code: int, text: str = "") -> NoReturn:
    """End the command.

    Raises:
        SystemExit: with the code.
    """
    if text:
        say(text)
    raise SystemExit(int(code))


@contextmanager
def errors_as_exits() -> Iterator[None]:
    """Turn the library's errors into exit codes and a line each. Their messages never contain a URL or password.

    Raises:
        SystemExit: with the code.
    """
    try:
        yield
    except AiolockError as error:
        leave(_code_of(error), message_of(error))
    except KeyboardInterrupt:
        leave(of_signal(signal.SIGINT))
    except BrokenPipeError:  # as in `aiolock ls | head -1`
        _forget_output()
        leave(of_signal(signal.SIGPIPE))
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _forget_output()
        leave(ExitCode.UNWRITTEN, f"the output cannot be written: {error.strerror}")


def _forget_output() -> None:
    """Python writes what is left of it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def message_of(error: AiolockError) -> str:
    """What the error says, with the options of the command line in place of Python."""
    text = str(error)
    for in_python, here in _IN_PYTHON.items():
        text = text.replace(in_python, here)
    return text


def _code_of(error: AiolockError) -> ExitCode:
    match error:
        case ConfigurationError():
            return ExitCode.USAGE
        case BackendError():
            return ExitCode.UNREACHABLE
        case LockLost():
            return ExitCode.LOST
        case NotAcquired() | WaitTimeout():
            return ExitCode.BUSY
    return ExitCode.NO
