"""Messages between the processes of a host: datagrams, one socket for each manager."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from ...errors import BackendError
from ...log import Log
from .backlog import Backlog
from .rights import Rights

logger: Log = Log("aiolock.redis")

AGAIN = 10.0
"""Seconds until it is tried again to have a socket."""
SIZE = 65536
PATH = 100
"""Bytes that the path of a socket may have everywhere."""
_NAME = re.compile(r"[0-9a-f]{32}")
"""What sockets are called: a row may say anything."""
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC})
_FULL = frozenset({errno.EAGAIN, errno.ENOBUFS})


def folder_of(file: Path) -> Path:
    """Where the processes that use a file have their sockets."""
    return Path(f"{file}-sockets")


def offered(file: Path) -> bool:
    """Whether sockets can be next to a file."""
    short = sys.platform == "linux" or len(os.fsencode(folder_of(file) / uuid4().hex)) <= PATH
    return hasattr(socket, "AF_UNIX") and sys.platform != "win32" and short


class Sockets:
    """A manager's own socket, and a way to those of the others.

    On Linux, paths go through a descriptor of the folder, so they may be long. What is called on the loop says so; all
    else is called in one thread.

    Args:
        deliver: gets the messages, on the loop: channel and payload.
        loop: the manager's.

    Attributes:
        name: of the own socket; a new one for each, so that nobody takes it for one that is gone.
        failure: why this process cannot be woken; None if it can.
    """

    def __init__(self, deliver: Callable[[str, str], None], loop: asyncio.AbstractEventLoop) -> None:
        self.name: str = ""
        self.failure: OSError | None = None
        self._deliver = deliver
        self._loop = loop
        self._backlog = Backlog(loop, self._sent)
        self._file = self._folder = Path()
        self._own = ""
        self._fd = -1
        self._inode = -1
        self._forbidden = False
        self._until = 0.0  # after a failure
        self._bound: socket.socket | None = None
        self._in: socket.socket | None = None  # the same, once the loop knows of it
        self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._out.setblocking(False)

    def look(self, file: Path) -> bool:
        """Have a socket next to a file; return whether it is a new one, of which nobody knows yet."""
        if file == self._file and (self._is_there() or time.monotonic() < self._until):
            return False
        self._leave()
        self._file, self._folder = file, folder_of(file)
        self.name = uuid4().hex
        self._own = str(self._folder / self.name)
        try:
            self._bound = made = self._make(Rights(file))
        except OSError as error:
            if self._inode >= 0 and self.failure is None:
                logger.warning("%s: this process cannot be woken any more, so its waiters ask: %s", self._folder, error)
            self.failure, self._until = error, time.monotonic() + AGAIN
            return False
        self.failure, self._until = None, 0.0
        self._sweep()
        try:
            self._loop.call_soon_threadsafe(self._hear, made)
        except RuntimeError:  # the loop was closed
            made.close()
        return True

    def refusal(self) -> BackendError | None:
        """What to say to those who want to be told; None if they will be."""
        error = self.failure
        if error is None:
            return None
        transient = error.errno in _PASSING
        text = f"{self._folder}: other processes cannot wake this one there: {error}"
        refusal = BackendError("", f"{text}: let it create files in that folder", transient)
        refusal.__cause__ = error
        return refusal

    def send(self, name: str, channel: str, payload: str) -> None:
        """Send to a socket, if it is there. What a full receiver cannot take is sent again."""
        data = json.dumps([channel, payload]).encode()
        if _NAME.fullmatch(str(name)) and not self._sent(name, data):
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._backlog.keep, name, data)

    def heard(self, name: str) -> bool:
        """Whether a process reads there. The socket of one that was killed is removed."""
        if not _NAME.fullmatch(str(name)):
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
                probe.connect(self._path(name))
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._fd)
            return False
        except FileNotFoundError:
            return self._fd < 0
        except OSError:
            return True  # it is we who cannot look: out of descriptors, for example
        return True

    def close(self) -> None:
        """Hear and send nothing more; called on a loop, after the thread has ended."""
        self._hear(None)
        if self._bound is not None:
            self._bound.close()
        self._backlog.clear()
        self._out.close()
        self._leave()

    def _is_there(self) -> bool:
        try:
            return os.stat(self._own, follow_symlinks=False).st_ino == self._inode
        except OSError:
            return False

    def _make(self, rights: Rights) -> socket.socket:
        self._fd = rights.folder(self._folder)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            made.setblocking(False)
            made.bind(self._path(self.name))
            self._inode = os.stat(self.name, dir_fd=self._fd, follow_symlinks=False).st_ino
            rights.give(self._fd, self._folder / self.name)
        except BaseException:
            made.close()
            raise
        return made

    def _sweep(self) -> None:
        with contextlib.suppress(OSError):
            for name in os.listdir(self._fd):
                self.heard(name)

    def _leave(self) -> None:
        """The folder, with the own socket."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self.name, dir_fd=self._fd)
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _path(self, name: str) -> str:
        return f"/proc/self/fd/{self._fd}/{name}" if sys.platform == "linux" else str(self._folder / name)

    def _sent(self, name: str, data: bytes) -> bool:
        """Send; return False if the receiver is full. Called anywhere."""
        try:
            self._out.sendto(data, self._path(name))
        except PermissionError as error:
            if not self._forbidden:
                self._forbidden = True
                remedy = "let all who may write to the file write to the sockets there"
                logger.warning("%s: not all can be woken, so waiters there ask: %s: %s", self._folder, error, remedy)
        except OSError as error:  # otherwise it is gone
            return error.errno not in _FULL
        return True

    # On the loop.

    def _hear(self, made: socket.socket | None) -> None:
        """Read there, and nowhere else."""
        if self._in is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._in)
            self._in.close()
        self._in = made
        if made is not None and made.fileno() >= 0:  # not closed meanwhile
            self._loop.add_reader(made, self._read, made)

    def _read(self, own: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while self._in is own:
                try:
                    channel, payload = json.loads(own.recv(SIZE))
                except (ValueError, TypeError, RecursionError):
                    continue  # none of ours: anyone can write there
                self._deliver(str(channel), str(payload))
