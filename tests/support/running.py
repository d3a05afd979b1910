"""Servers of databases that do not outlive the processes that use them, in whatever way those end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from .debian import locked

START_SECONDS = 60.0

# All who use a server can write to this pipe, and never do: so its end is that of the last of them. Whoever killed that
# one may have stopped the server before. A number that the system has given to another process does not count.
_KEEPER = """
cat "$0/users"
ours() { { tr '\\0' ' ' <"/proc/$pid/cmdline" || ps -ww -o args= -p "$pid"; } 2>/dev/null | grep -qF "$0"; }
for file in "$0"/*.pid; do
  pid=$(cat "$file") && ours || continue
  kill -CONT "$pid"; kill -QUIT "$pid"
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do ours || break; sleep 0.5; done
  ! ours || kill -KILL "$pid"
done
rm -rf "$0" "$0.lock"
"""
_BEGIN = 'echo $$ >"$0" && exec "$@"'

_using: set[int] = set()


def keep(folder: Path) -> int:
    """Watch over the server whose files are in a folder: it ends, and they go, when nobody uses it any more.

    Returns:
        What says that this process uses it, until it is closed.
    """
    os.mkfifo(folder / "users")
    keeper = subprocess.Popen(
        ["/bin/sh", "-c", _KEEPER, str(folder)], stdin=-3, stdout=-3, stderr=-3, start_new_session=True
    )
    keeper.returncode = 0  # it outlives us: nobody waits for it
    using = os.open(folder / "users", os.O_WRONLY)
    _using.add(using)
    return using


def kept(file: Path, command: Sequence[str]) -> list[str]:
    """A command line whose process is ended by the keeper of the folder of this file; it must name that folder.

    Args:
        file: gets its number; it ends with ".pid".
        command: what to run.
    """
    return ["/bin/sh", "-c", _BEGIN, str(file), *command]


def release(using: int) -> None:
    """This process does not use that server any more. Harmless if it was said before."""
    if using in _using:
        _using.remove(using)
        os.close(using)


def _leave() -> None:
    for using in _using:  # a forked child does not keep the servers of its parent
        os.close(using)
    _using.clear()


os.register_at_fork(after_in_child=_leave)


def shared(folder: Path, begin: Callable[[], str]) -> str:
    """Use the server in a folder until this process ends, together with others. If nobody does so far, begin it.

    Returns:
        What `begin` has told of it.
    """
    with locked(Path(f"{folder}.lock")):
        told = folder / "told"
        with contextlib.suppress(OSError):  # nobody uses it
            _using.add(os.open(folder / "users", os.O_WRONLY | os.O_NONBLOCK))
            return told.read_text()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        keep(folder)
        told.write_text(begin())
        return told.read_text()


class Running(ABC):
    """A server with its files in a folder.

    Args:
        folder: an empty one.
        settings: more of its command line.

    Attributes:
        folder: see above.
        process: it, or the one that it was.
    """

    crash: signal.Signals = signal.SIGKILL
    """Ends it as in a crash, and leaves nothing behind in the system."""
    user: int | None = None
    """As whom it runs."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder = folder
        self._settings = settings
        self._log = folder / "log"
        self.make()
        self.start()

    @abstractmethod
    def make(self) -> None:
        """Make its files."""

    @abstractmethod
    def command(self) -> list[str]:
        """Its command line. It names the folder."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Its variables."""
        return os.environ

    @abstractmethod
    def answers(self) -> bool:
        """Whether it does."""

    def run(self, *command: str, given: str = "") -> None:
        """Run one of its programs to the end."""
        with self._log.open("ab") as log:
            subprocess.run(
                command, env=self.environment, user=self.user, input=given.encode(), stdout=log, stderr=log, check=True
            )

    def start(self) -> None:
        """Start it; return once it answers."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                kept(self.folder / "server.pid", [*self.command(), *self._settings]),
                env=self.environment,
                user=self.user,
                stdin=-3,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + START_SECONDS
        while not self.answers():
            if time.monotonic() > until or self.process.poll() is not None:
                raise AssertionError(f"it does not run: {self._log.read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it as in a crash."""
        self.process.send_signal(self.crash)
        self.process.wait(20)

    def leave(self) -> None:
        """It may outlive this process: nobody waits for it."""
        self.process.returncode = 0


class OwnServer:
    """A server of one's own.

    Args:
        kind: makes it in a folder.
        settings: more of its command line.

    Attributes:
        running: it.
    """

    running: Running

    def __init__(self, kind: Callable[..., Running], *settings: str) -> None:
        # Not in pytest's folders: another run of it may take away that another user may enter them.
        folder = Path(tempfile.mkdtemp(prefix="aiolock-db-"))
        self._using = keep(folder)
        try:
            self.running = kind(folder, *settings)
        except BaseException:
            release(self._using)
            raise

    @contextmanager
    def away(self) -> Iterator[None]:
        """It ends as in a crash, and is there again afterwards."""
        self.running.stop()
        yield
        self.running.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """None of its processes runs."""
        server = psutil.Process(self.running.process.pid)
        stopped = [server, *server.children(recursive=True)]
        for process in stopped:
            _signal(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                _signal(process, signal.SIGCONT)

    def close(self) -> None:
        """End it; its files go."""
        self.running.stop()
        release(self._using)


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
