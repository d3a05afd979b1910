"""`aiolock run`: a command that runs under a lock."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, cast

import click

from ..core.lease import Lease
from ..errors import AcquireTimeout, BackendError
from ..manager import LockManager
from ..primitives.lock import Lock
from ..recipes import once
from ..recipes.window import REPEATABLE
from .connection import Connection, connected
from .duration import Duration, in_words
from .exits import ExitCode, errors_as_exits, leave, of_signal, say
from .job import Job, Unstartable
from .signals import Signals


@click.command(short_help="Run a command under a lock.")
@click.option(
    "--ttl", type=Duration(), default="30s", show_default=True, help="How long a dead holder keeps others out."
)
@click.option(
    "--margin", type=Duration(), help="How long before the expiry the command is told to stop.  [default: ttl/10]"
)
@click.option("--timeout", type=Duration(), help="How long to wait for the lock.  [default: without limit]")
@click.option(
    "--skip-if-held", is_flag=True, help="Do not wait: if another one has the lock, the command does not run."
)
@click.option(
    "--once",
    "window",
    type=Duration(),
    metavar="WINDOW",
    help="Run at most once in this time, on all machines together.",
)
@click.option(
    "--repeat",
    type=click.Choice(list(REPEATABLE)),
    default="interrupted",
    show_default=True,
    help="With --once: after what a run may be repeated within its window.",
)
@click.option(
    "-E",
    "--busy-code",
    type=click.IntRange(0, 255),
    default=int(ExitCode.BUSY),
    show_default=True,
    help="Exit code if the lock is not free in time.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not say why the command was not run.")
@connected
@click.argument("name")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    connection: Connection,
    name: str,
    command: tuple[str, ...],
    ttl: float,
    margin: float | None,
    timeout: float | None,
    skip_if_held: bool,
    window: float | None,
    repeat: str,
    busy_code: int,
    quiet: bool,
) -> None:
    """Run COMMAND while this machine holds the lock NAME: aiolock run nightly-report -- ./report --all

    The exit code is that of COMMAND; 128 + n if signal n ended it. Signals go to COMMAND and all its processes. If the
    lock is lost, they get SIGTERM, and SIGKILL before another holder can enter.

    COMMAND finds AIOLOCK_FENCE and AIOLOCK_NAME in its environment.
    """  # fmt: skip
    if not hasattr(os, "setsid"):
        leave(ExitCode.USAGE, "run needs the process groups of Unix")
    if window is not None and (timeout is not None or skip_if_held):
        leave(ExitCode.USAGE, "--once never waits: leave out --timeout and --skip-if-held")
    wanted = Wanted(name, command, 0.0 if skip_if_held else timeout, window, repeat)
    with errors_as_exits():
        manager = connection.manager(ttl=ttl, margin=margin)
        try:
            code = asyncio.run(_run(manager, wanted))
        except Busy as busy:
            leave(busy_code, "" if quiet else str(busy))
        except Skipped as skipped:
            leave(ExitCode.OK, "" if quiet else str(skipped))
        except Unstartable as error:
            leave(error.code, str(error))
    leave(code)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to run, and when.

    Attributes:
        name: of the lock.
        command: program and arguments.
        timeout: seconds to wait; None for no limit.
        window: seconds in which it runs once; None to run it each time.
        repeat: see `aiolock.recipes.once`.
    """

    name: str
    command: tuple[str, ...]
    timeout: float | None
    window: float | None
    repeat: str


class Busy(Exception):
    """Another one had the lock."""


class Skipped(Exception):
    """The window has had its run, or has it just now."""


class Failed(Exception):
    """The command ended with another exit code than 0."""


class Interrupted(BaseException):
    """The command was ended by a signal to us, so its run may be repeated: no error of its own."""


async def _run(manager: LockManager, wanted: Wanted) -> int:
    """Return the exit code of the command."""
    code: int | None = None

    async def work(lease: Lease) -> None:
        nonlocal code
        code = await Job(wanted.command, clock, signals).run(lease)
        if code and wanted.window is not None:  # what is kept of the run depends on it
            raise Failed if signals.ended_by is None else Interrupted

    with Signals() as signals:
        try:
            async with manager:
                # The job ends its command itself when it is lost: in its own order, and in time.
                lock = manager.lock(wanted.name, cancel_on_loss=False, metadata=_program(wanted))
                clock = lock.clock
                if wanted.window is None:
                    await _under(lock, wanted.timeout, work)
                else:
                    await _once(manager, wanted, work)
        except (Failed, Interrupted):
            pass
        except BackendError as error:  # of the release
            if code is None:
                raise
            say(str(error))
        except asyncio.CancelledError:
            if signals.ended_by is None:
                raise
            return of_signal(signals.ended_by)
    return code or 0


async def _under(lock: Lock, timeout: float | None, work: Callable[[Lease], Awaitable[None]]) -> None:
    """Wait for the lock, and do it.

    Raises:
        Busy: another one has it.
    """
    if timeout == 0:
        attempt = lock.try_acquire()
        async with attempt as lease:
            if lease is None:
                raise Busy(f"{lock.name!r} is held by {attempt.holder or 'another one'}: not run")
            await work(lease)
        return
    try:
        acquired = await lock.acquire(timeout=timeout)
    except AcquireTimeout as error:
        if isinstance(error.__cause__, BackendError):
            raise error.__cause__ from None
        raise Busy(f"{error}: not run") from None
    async with acquired as lease:
        await work(lease)


async def _once(manager: LockManager, wanted: Wanted, work: Callable[[Lease], Awaitable[None]]) -> None:
    """Do it, unless the window has had its run.

    Raises:
        Skipped: it has, or another one runs.
    """
    assert wanted.window is not None
    repeat = cast(Literal["never", "failed", "interrupted", "both"], wanted.repeat)
    job = once(
        manager, wanted.name, window=wanted.window, repeat=repeat, cancel_on_loss=False, metadata=_program(wanted)
    )
    run = await job.run(work)
    if not run.ran:
        when = f", begun {in_words(run.age)} ago" if run.age else ""
        raise Skipped(f"{wanted.name!r}: {run.status.value} by {run.by or 'another one'}{when}: not run")


def _program(wanted: Wanted) -> str:
    """What others are told: the program without its arguments, which may be secret."""
    return os.path.basename(wanted.command[0])[:80]
