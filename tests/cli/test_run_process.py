"""`aiolock run` as a process: signals to it, its death, and a real terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from aiolock import LockManager
from tests.support import redis_cli
from tests.support.locks import held

from .conftest import CommandLine, alive, until

GROUP = "sh -c 'echo $$ >> note; while :; do sleep 0.02; done' & echo $$ >> note; while :; do sleep 0.02; done"
"""A shell and its child; both note their pids."""
HEARS = "trap 'echo heard >> note' WINCH; "


def pids_of(cli: CommandLine, process: subprocess.Popen[bytes], count: int) -> list[int]:
    """The pids that a command has noted which `HEARS`, once its runner serves it: it may be slower than the command."""
    until(lambda: len(cli.noted()) == count)
    process.send_signal(signal.SIGWINCH)
    until(lambda: cli.noted()[-1] == "heard")
    return [int(pid) for pid in cli.noted()[:-1]]


async def locked(url: str, name: str = "a") -> bool:
    async with LockManager(url) as locks:
        return await locks.lock(name).is_locked()


def test_signals_reach_the_whole_command(cli: CommandLine) -> None:
    """The lock is held until it has ended, and its exit code says by what. Kept by Signals.pass_to."""
    trap = "trap 'echo usr1 >> note' USR1; trap 'echo term >> note; exit 7' TERM; "
    process = cli.start("run", "a", "--", "sh", "-c", trap + GROUP)
    until(lambda: len(cli.noted()) == 2)
    process.send_signal(signal.SIGUSR1)
    until(lambda: "usr1" in cli.noted())
    assert asyncio.run(locked(cli.url))
    process.send_signal(signal.SIGTERM)  # HUP is ignored if the tests run under nohup
    assert process.wait(20) == 7
    assert not any(alive(int(pid)) for pid in cli.noted()[:2])
    assert not asyncio.run(locked(cli.url))


def test_a_signal_ends_the_wait(cli: CommandLine) -> None:
    """Before the command has begun it never begins."""

    async def while_held() -> int:
        async with LockManager(cli.url) as locks, locks.fair_lock("a"):
            process = cli.start("run", "a", "--", "sh", "-c", "echo ran >> note")
            async with asyncio.timeout(20):
                while (info := await locks.fair_lock("a").info()) is None or not info.waiters:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            process.terminate()
            return await asyncio.to_thread(process.wait, 20)

    assert asyncio.run(while_held()) == 143
    assert cli.noted() == []


def test_a_killed_runner_takes_its_command_along(cli: CommandLine) -> None:
    """Nobody would stop it when the lock expires. Kept by Keeper."""
    process = cli.start("run", "a", "--", "sh", "-c", HEARS + GROUP)
    pids = pids_of(cli, process, 2)
    process.kill()
    until(lambda: not any(map(alive, pids)))
    assert process.wait(20) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only there another process than the first can get orphans")
def test_the_first_process_of_a_container_buries_orphans(cli: CommandLine) -> None:
    """Otherwise they stay for as long as the command runs. Kept by Job._look."""
    adopts = "import ctypes; ctypes.CDLL(None).prctl(36, 1); import aiolock.cli.job as job; job._is_init = lambda: True"
    orphan = "(true & echo $! > note); for _ in $(seq 500); do kill -0 $(cat note) || exit 4; sleep 0.02; done"
    words = ["run", "a", "--", "sh", "-c", orphan]
    script = f"{adopts}; from aiolock.cli.app import app; app({words!r})"
    ended = subprocess.run([cli.python, "-c", script], env=cli.environment, cwd=cli.folder, stderr=-1, check=False)
    assert ended.returncode == 4


def test_a_command_ends_in_time_while_its_runner_stands_still(cli: CommandLine) -> None:
    """It is asked, and killed before another can enter. Kept by Job._keep."""
    trap = "trap 'echo term >> note' TERM; echo $$ >> note; while :; do sleep 0.02; done"
    process = cli.start("run", "--ttl", "4s", "--margin", "2s", "a", "--", "sh", "-c", HEARS + trap)
    (pid,) = pids_of(cli, process, 1)
    with redis_cli.client(cli.url) as link:
        process.send_signal(signal.SIGSTOP)
        until(lambda: not alive(pid))
        assert held(link, "a")
        assert cli.noted()[2:] == ["term"]
        until(lambda: not held(link, "a"))
    process.send_signal(signal.SIGCONT)
    assert process.wait(20) == 79
    assert "LOOP_BLOCKED" in cli.errors


def test_a_command_may_outlast_the_ttl(cli: CommandLine) -> None:
    """Its keeper hears of each renewal. Kept by Job._keep."""
    assert cli("run", "--ttl", "1s", "a", "--", "sleep", "2.5").exit_code == 0


def test_a_loss_is_told_once(cli: CommandLine) -> None:
    """When it happens, by the log. Kept by run()."""
    process = cli.start("run", "a", "--", "sh", "-c", GROUP)
    until(lambda: len(cli.noted()) == 2)
    assert cli("force-release", "--yes", "a").exit_code == 0
    assert process.wait(20) == 79
    assert len(cli.errors.splitlines()) == 1
    assert "REVOKED" in cli.errors


def test_a_command_that_no_signal_reaches(cli: CommandLine) -> None:
    """It keeps its lock; if that is lost, a signal ends us without it, and the exit code says so. Kept by Job._stop."""
    words = ["run", "a", "--", "sh", "-c", "echo $$ >> note; while :; do sleep 0.02; done"]
    script = f"from tests.cli.conftest import *; os.killpg = protected; Keeper.keep = unheard; app({words!r})"
    process = cli.start_python("-c", script)
    until(cli.noted)
    pid = int(cli.noted()[0])
    try:
        process.terminate()
        until(lambda: "SIGTERM does not reach it" in cli.errors)
        assert asyncio.run(locked(cli.url))
        assert cli("force-release", "--yes", "a").exit_code == 0
        until(lambda: "WITHOUT THE LOCK" in cli.errors)
        process.terminate()
        assert process.wait(20) == 80
        assert cli.errors.count("lost") == 1
        assert alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_descriptors_are_inherited(cli: CommandLine) -> None:
    """As those of make's job server, and of `<(…)` in a shell. Kept by Job._start."""
    reading, writing = os.pipe()
    words = [cli.python, "-m", "aiolock", "run", "a", "--", "sh", "-c", f"echo through > /dev/fd/{writing}"]
    subprocess.run(words, env=cli.environment, pass_fds=[writing], check=True)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "through\n"


class Screen:
    """An interactive shell under a real terminal.

    Args:
        cli: for its environment.

    Attributes:
        pid: the shell's.
    """

    def __init__(self, cli: CommandLine) -> None:
        self.text = ""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # the tests may run with `&`, or under nohup
                signal.signal(number, signal.SIG_DFL)
            os.chdir(cli.folder)
            os.execvpe("sh", ["sh", "-i"], {**cli.environment, "PS1": "$ ", "ENV": ""})

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    @property
    def mode(self) -> int:
        """The local modes of the terminal."""
        return int(termios.tcgetattr(self._terminal)[3])

    def shows(self, text: str) -> None:
        """Wait until it is shown; what came before is forgotten."""
        end = time.monotonic() + 20
        while text not in self.text:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{text!r} is not shown, but {self.text!r}"
            self.text += os.read(self._terminal, 4096).decode(errors="replace")
        self.text = self.text.partition(text)[2]

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


@pytest.fixture
def screen(cli: CommandLine) -> Iterator[Screen]:
    screen = Screen(cli)
    yield screen
    screen.close()


def test_a_terminal(cli: CommandLine, screen: Screen) -> None:
    """The command may read from it; Ctrl-Z stops it and `fg` continues it, with its lock; Ctrl-C ends it.

    Kept by Job._stopped and Terminal.lend.
    """
    screen.shows("$ ")
    script = 'while read line; do [ "$line" != trap ] || trap "echo caught; exit 9" INT; echo "got $line"; done'
    screen.type(f"{cli.python} -m aiolock run a -- sh -c '{script}'\n")
    screen.shows("done'")
    screen.type("one\n")
    screen.shows("got one")
    screen.type("\x1a")
    screen.shows("$ ")
    assert asyncio.run(locked(cli.url))
    screen.type("fg\n")
    screen.type("trap\n")
    screen.shows("got trap")
    screen.type("\x03")
    screen.shows("caught")
    screen.shows("$ ")
    screen.type("echo code $?\n")
    screen.shows("code 9")
    assert not asyncio.run(locked(cli.url))
