"""`aiolock run`: a command that runs under a lock; and `aiolock forget`: lets one of `run --once` run again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, cast

import click

from ..clock import Clock, pause
from ..core.lease import Lease
from ..errors import AcquireTimeout, AiolockError, BackendError, LockLost
from ..manager import LockManager
from ..primitives.lock import Lock
from ..primitives.options import LockOptions
from ..primitives.rw_lock import RWLock, RWLockSide
from ..primitives.semaphore import Semaphore
from ..recipes import Run, once
from ..recipes.window import REPEATABLE
from .connection import Connection, connected
from .exits import ExitCode, leave, of_signal, say
from .job import Job, Outlived, Unstartable
from .job_control import Signals
from .text import Duration, SignalName, in_words, json_option, plain, print_json

PATIENCE = 2.0
"""Seconds after which it says that it waits, and for whom."""
AGAIN = 60.0
"""Seconds after which it says so again with -v."""

OF_FLOCK: dict[tuple[str, ...], str] = {
    ("-n", "--nb", "--nonblock"): "write --skip-if-held",
    ("-w", "--wait"): "write --timeout 10s",
    ("--conflict-exit-code",): "write -E, or --busy-code",
    ("-e",): "write -x, or --exclusive",
    ("-u", "--unlock"): "leave it out, as the lock is released when the program has ended",
    ("-o", "--close", "-F", "--no-fork"): "leave it out, as the program inherits no lock",
}
"""What to write instead of options of flock(1)."""


class Runner(click.Command):
    """Takes options before NAME, and between NAME and COMMAND; what follows COMMAND is its own, also without `--`."""

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command`."""
        try:
            return super().parse_args(ctx, self._in_order(ctx, args))
        except click.NoSuchOption as error:
            hint = next((hint for names, hint in OF_FLOCK.items() if error.option_name in names), None)
            if hint is None:
                raise
            raise click.UsageError(f"{error.option_name} is an option of flock: {hint}", ctx) from None

    def _in_order(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = click.Command(None, params=[one for one in self.params if isinstance(one, click.Option)])
        parse = options.make_parser(ctx).parse_args  # it stops at the first word that is no option
        _, words, _ = parse(list(args))
        before = args[: len(args) - len(words)]
        if words and before[-1:] != ["--"]:
            name, *rest = words
            _, command, _ = parse(list(rest))
            return [*before, *rest[: len(rest) - len(command)], name, *command]
        return args


@click.command(cls=Runner, short_help="Run a command under a lock.")
@click.option(
    "--ttl", type=Duration(), default="30s", show_default=True, help="How long a dead holder keeps others out."
)
@click.option(
    "--margin", type=Duration(), help="How long before the expiry the command gets its first signal.  [default: ttl/10]"
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
@click.option("-s", "--shared", is_flag=True, help="Run together with others that use --shared.")
@click.option("-x", "--exclusive", is_flag=True, help="Run alone, without others that use --shared.")
@click.option("--permits", type=click.IntRange(1), metavar="N", help="Run together with up to N - 1 others.")
@click.option("--at-least", type=Duration(), help="Keep others out for at least this long, even if it ends early.")
@click.option("-c", "--command", "line", metavar="COMMAND", help="Run this line with sh.")
@click.option(
    "--signal",
    "ending",
    type=SignalName(),
    default="TERM",
    show_default=True,
    help="The first signal if the lock is lost.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not say that it waits, or why the command was not run.")
@click.option("-v", "--verbose", is_flag=True, help="Say who has the lock, at once and then every minute.")
@connected
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
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
    shared: bool,
    exclusive: bool,
    permits: int | None,
    at_least: float | None,
    line: str | None,
    ending: int,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run COMMAND while this machine holds the lock NAME: aiolock run nightly-report -- ./report --all

    The exit code is that of COMMAND; 128 + n if signal n ended it. Signals go to COMMAND and all its processes. If the
    lock is lost, they get SIGTERM, and SIGKILL before another holder can enter.

    COMMAND finds AIOLOCK_FENCE and AIOLOCK_NAME in its environment.

    --shared and --exclusive take the sides of the read-write lock NAME, and --permits takes one permit of the semaphore
    NAME. Neither has anything to do with the lock NAME.
    """  # fmt: skip
    if not hasattr(os, "setsid"):
        leave(ExitCode.USAGE, "run needs the process groups of Unix")
    if window is not None and (timeout is not None or skip_if_held):
        leave(ExitCode.USAGE, "--once never waits: leave out --timeout and --skip-if-held")
    if bool(command) == (line is not None):
        leave(ExitCode.USAGE, "write the program and its arguments after NAME, or -c and one line for sh")
    if shared + exclusive + (permits is not None) + (window is not None) > 1:
        leave(ExitCode.USAGE, "--shared, --exclusive, --permits and --once exclude each other: write one of them")
    if at_least is not None and window is not None:
        leave(ExitCode.USAGE, "--once has its window: leave out --at-least")
    wanted = Wanted(
        name,
        command if line is None else ("sh", "-c", line),
        0.0 if skip_if_held else timeout,
        window,
        repeat,
        quiet,
        verbose,
        "read" if shared else "write" if exclusive else "lock" if permits is None else "permits",
        permits or 1,
        ending,
        at_least,
    )
    manager = connection.manager(ttl=ttl, margin=margin)
    try:
        code = asyncio.run(_run(manager, wanted))
    except Busy as busy:
        leave(busy_code, "" if quiet else str(busy))
    except Skipped as skipped:
        leave(ExitCode.OK, "" if quiet else str(skipped))
    except Unstartable as error:
        leave(error.code, str(error))
    except LockLost as lost:  # the log has told of it
        leave(ExitCode.OUTLIVED if isinstance(lost, Outlived) else ExitCode.LOST)
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
        quiet: do not say that it waits.
        verbose: say it at once, and again each minute.
        takes: "lock"; "read" or "write" of a read-write lock; "permits" of a semaphore.
        permits: how many that has.
        ending: the signal that asks it to end after a loss.
        at_least: seconds for which others are kept out.
    """

    name: str
    command: tuple[str, ...]
    timeout: float | None
    window: float | None
    repeat: str
    quiet: bool = False
    verbose: bool = False
    takes: str = "lock"
    permits: int = 1
    ending: int = signal.SIGTERM
    at_least: float | None = None


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
        code = await Job(wanted.command, clock, signals, wanted.ending).run(lease)
        if code and wanted.window is not None:  # what is kept of the run depends on it
            raise Failed if signals.ended_by is None else Interrupted

    with Signals() as signals:
        try:
            async with manager:
                clock = manager.lock(wanted.name).clock
                if wanted.window is None:
                    await _under(manager, wanted, work)
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


async def _under(manager: LockManager, wanted: Wanted, work: Callable[[Lease], Awaitable[None]]) -> None:
    """Wait for the lock, and do it.

    Raises:
        Busy: another one has it.
    """
    # The job ends its command itself when it is lost: in its own order, and in time.
    options = LockOptions(cancel_on_loss=False, metadata=_program(wanted), hold_at_least=wanted.at_least)
    lock: Lock | RWLockSide | Semaphore
    looked: Lock | RWLock | Semaphore
    if wanted.takes == "permits":
        lock = looked = manager.semaphore(wanted.name, wanted.permits, **options)
    elif wanted.takes == "lock":
        lock = looked = manager.lock(wanted.name, **options)
    else:
        looked = manager.rw_lock(wanted.name, **options)
        lock = looked.read if wanted.takes == "read" else looked.write
    if wanted.timeout == 0:
        attempt = lock.try_acquire()
        async with attempt as lease:
            if lease is None:
                raise Busy(f"{lock.name!r} is held by {attempt.holder or 'another one'}: not run")
            await work(lease)
        return
    telling = None if wanted.quiet else asyncio.ensure_future(_tell_who_holds(looked, lock.clock, wanted.verbose))
    try:
        acquired = await lock.acquire(timeout=wanted.timeout)
    except AcquireTimeout as error:
        raise Busy(f"{error}: not run") from None
    finally:
        if telling is not None:
            telling.cancel()
    async with acquired as lease:
        await work(lease)


async def _tell_who_holds(lock: Lock | RWLock | Semaphore, clock: Clock, verbose: bool) -> None:
    """After a moment, as a short wait is not worth a word; if `verbose` at once, and again each minute."""
    await pause(clock, 0.0 if verbose else PATIENCE)
    while True:
        try:
            holders = [" ".join(filter(None, (one.process, one.metadata))) for one in await lock.holders()]
            holder = f", held by {', '.join(holders)}" if holders else ""
        except AiolockError as error:
            holder = f": {error}"
        say(f"waiting for {lock.name!r}{holder}")
        if not verbose:
            return
        await pause(clock, AGAIN)


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


@click.command(short_help="Let a job of run --once run again.")
@json_option
@connected
@click.argument("name")
def forget(connection: Connection, name: str, as_json: bool) -> None:
    """Forget the last run of NAME, so that the next `run --once` runs it, whatever became of the last.

    A run that is under way goes on, and nobody else begins one before it ends.

    Exit code 1 if no run is known, or its window is over.
    """
    run = asyncio.run(_forget(connection, name))
    if as_json:
        print_json({"name": name, "forgotten": run is not None, "status": run.status.value if run else None})
    elif run is not None:
        click.echo(f"forgot the run of {plain(name)}: {run.status.value}, begun {in_words(run.age)} ago by {run.by}")
    leave(ExitCode.OK if run else ExitCode.NO, "" if run or as_json else f"no run of {name!r} is known")


async def _forget(connection: Connection, name: str) -> Run[object] | None:
    async with connection.manager() as manager:
        job = once(manager, name, window=1.0, repeat="never")  # neither matters here
        run = await job.last()
        return run if run is not None and await job.forget() else None
