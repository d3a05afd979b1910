"""The command of `run`: a process group that lives at most as long as its lease."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence

from ..clock import Clock, Timer, pause
from ..core.lease import Lease
from ..errors import LockLost
from .exits import ExitCode, of_signal, say
from .job_control import Keeper, Signals, Terminal

KILL_SHARE = 0.2
"""The part of the margin that is left when the command is killed: for the kernel, and for a busy machine. As long after
our deadline its keeper asks it to end, if we have not.
"""
_LOOK = 0.02
"""Seconds between two checks whether the rest of a group has ended: nothing tells us of processes that are not ours."""
_LOOK_LATER = 1.0
"""The same, once it is known that we may not end them."""


_REMEDY = "Run aiolock as that user"


class Unstartable(Exception):
    """The command cannot be started.

    Args:
        code: the exit code for that.
        text: why.
    """

    def __init__(self, code: ExitCode, text: str) -> None:
        super().__init__(text)
        self.code: ExitCode = code


class Outlived(LockLost):
    """The lock was lost, and the command, or a process of its group, ran on: we may not end it."""


class Job:
    """Runs one command under a lease, in a process group of its own.

    Args:
        command: program and arguments.
        clock: of the lease.
        signals: caught already; passed on to the command.
        ending: the signal that asks it to end after a loss.
    """

    def __init__(self, command: Sequence[str], clock: Clock, signals: Signals, ending: int = signal.SIGTERM) -> None:
        self._command = list(command)
        self._clock = clock
        self._signals = signals
        self._ending = ending
        self._group = 0
        self._ended: asyncio.Future[int] | None = None
        self._stopping = False
        self._outlived = False
        self._looking: Timer | None = None

    async def run(self, lease: Lease) -> int:
        """Run the command to its end, unless the lease is lost before.

        After a loss its group is asked to end, and what is left of it is killed when a fifth of the margin is left:
        before the server would admit another holder. If that time is over already, it is killed at once. If it runs as
        another user, and we may not end it, that is said at once, and tried again until it has ended, or a signal ends
        us. While this process stands still, its keeper does the same.

        Returns:
            Its exit code.

        Raises:
            Unstartable: it was not started.
            Outlived: it could not be stopped.
            LockLost: it was stopped.

        Cancellation: it is killed.
        """
        self._keeper, terminal = Keeper(), Terminal()
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        lost = asyncio.ensure_future(lease.wait_lost())
        process: subprocess.Popen[bytes] | None = None
        try:
            self._signals.pass_to(self._signal)
            process = self._start(lease)
            self._group = process.pid
            self._keep(lease)
            loop.add_signal_handler(signal.SIGCHLD, self._look, process, lease, terminal)
            self._look(process, lease, terminal)
            await asyncio.wait((self._ended, lost), return_when=asyncio.FIRST_COMPLETED)
            if lease.lost:  # it may have been ended for that, before this process learned of it
                await self._stop(lease)
                loss = lease._hold.loss()
                raise Outlived(loss.name, loss.message, loss.reason) if self._outlived else loss
            return self._ended.result()
        finally:
            lost.cancel()
            if self._looking is not None:
                self._looking.cancel()
            loop.remove_signal_handler(signal.SIGCHLD)
            if process is not None:
                if not self._ended.done():  # cancelled, or an error of ours: nothing may run on without the lock
                    self._stopping = True
                    self._signal(signal.SIGKILL)
                    if not self._outlived:
                        process.wait()
                terminal.take_back(process.pid)
            self._group = 0
            self._keeper.end()
            terminal.close()

    def _start(self, lease: Lease) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "AIOLOCK_NAME": lease.name, "AIOLOCK_FENCE": str(lease.fence)}
        program = self._command[0]
        try:
            return subprocess.Popen(self._command, env=environment, process_group=0, close_fds=False)
        except FileNotFoundError:
            raise Unstartable(ExitCode.NOT_FOUND, f"{program}: not found") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise Unstartable(ExitCode.NOT_EXECUTABLE, f"{program}: {reason}") from None

    def _look(self, process: subprocess.Popen[bytes], lease: Lease, terminal: Terminal) -> None:
        """A child has changed its state: find out if it is the command, and how."""
        assert self._ended is not None
        while True:
            try:
                pid, status = os.waitpid(-1 if _is_init() else process.pid, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid != process.pid:
                continue
            if os.WIFSTOPPED(status):
                self._stopped(os.WSTOPSIG(status), lease, terminal)
                continue
            code = os.waitstatus_to_exitcode(status)
            process.returncode = code
            self._ended.set_result(code if code >= 0 else of_signal(-code))

    def _stopped(self, by: int, lease: Lease, terminal: Terminal) -> None:
        """It was stopped. If it wants the terminal, it gets that; if the user stopped it, so are we, and a shell can
        continue both. While we are stopped, nobody renews the lease: if it is lost by then, the command never goes on.
        """
        wants = by in (signal.SIGTTIN, signal.SIGTTOU)
        if wants and terminal.foreground == os.getpgrp() and terminal.lend(self._group):
            self._signal(signal.SIGCONT)
            return
        if not terminal.foreground or (by == signal.SIGSTOP and terminal.foreground != self._group):
            return
        had = terminal.foreground == self._group
        terminal.take_back(self._group)
        self._signals.stop_here()
        if not lease.lost:
            if had or wants:
                terminal.lend(self._group)
            self._signal(signal.SIGCONT)

    def _keep(self, lease: Lease) -> None:
        """Tell the keeper until when the command may run, and look again when that may have changed."""
        if lease.lost:
            return
        hold, now = lease._hold, self._clock.now()
        rest = (hold.expiry - hold.deadline) * KILL_SHARE
        self._keeper.keep(self._group, self._ending, hold.deadline + rest - now, hold.expiry - rest - now)
        self._looking = self._clock.call_at(min(now + hold.ttl_ms / 3000, hold.deadline), lambda: self._keep(lease))

    async def _stop(self, lease: Lease) -> None:
        """End the whole group in time."""
        now, hold = self._clock.now(), lease._hold
        margin = hold.expiry - hold.deadline
        until = min(now + margin, hold.expiry) - margin * KILL_SHARE
        self._stopping = True
        self._keeper.keep(self._group, self._ending, until - now, until - now)
        self._signals.ended_by = None
        if now < until:
            self._signal(self._ending)
            self._signal(signal.SIGCONT)  # a process that is stopped does not hear
            while self._signal(0) and (now := self._clock.now()) < until:
                await pause(self._clock, min(_LOOK, until - now))
        assert self._ended is not None
        look = _LOOK
        while self._signal(signal.SIGKILL):
            if self._outlived:
                if self._signals.ended_by is not None:
                    return
                look = min(2 * look, _LOOK_LATER)
            elif self._ended.done() and self._clock.now() >= hold.expiry:  # dead, but nobody buries them
                return
            await pause(self._clock, look)
        await self._ended

    def _signal(self, number: int) -> bool:
        """Send it to the whole group; return whether anything of that is left. 0 only looks."""
        if not self._group:
            return False
        try:
            os.killpg(self._group, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # we may signal none of those that are left
            self._refused(number)
        return True

    def _refused(self, number: int) -> None:
        program = self._command[0]
        if not self._stopping:
            say(f"{program} runs as another user: {signal.Signals(number).name} does not reach it. {_REMEDY}")
        elif not self._outlived:
            self._outlived = True
            say(f"cannot end {program}, which runs as another user: it runs on WITHOUT THE LOCK. {_REMEDY}")


def _is_init() -> bool:
    """Whether we are the first process of a container: its orphans become our children, and only we can bury them."""
    return os.getpid() == 1
