"""Messages between the processes of a host: datagrams, one socket for each manager."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

RETRY = 0.002
"""Seconds until a full receiver is tried again."""
KEPT = 1000
"""Messages that wait for full receivers at most: a lost one costs its receiver no more than a wait for its refresh."""
SIZE = 65536
PATH = 100
"""Bytes that the path of a socket may have everywhere."""


def offered(folder: Path, name: str) -> bool:
    """Whether sockets of such names can be in `folder`."""
    short = sys.platform == "linux" or len(os.fsencode(folder / name)) <= PATH
    return hasattr(socket, "AF_UNIX") and sys.platform != "win32" and short


class Sockets:
    """A manager's own socket, and a way to those of the others.

    On Linux, paths go through a descriptor of the folder, so they may be long.

    Args:
        folder: where all processes have their sockets; made if it is missing.
        name: of the own socket, used by no other.
        deliver: gets the messages, on the loop: channel and payload.

    Raises:
        OSError: the folder cannot be used.
    """

    def __init__(self, folder: Path, name: str, deliver: Callable[[str, str], None]) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._name = name
        self._deliver = deliver
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: deque[tuple[str, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._in, self._out = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
        self._in.setblocking(False)
        self._out.setblocking(False)
        try:
            self._in.bind(self._path(name))
        except BaseException:
            self.close()
            raise

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver from now on; called on the loop."""
        self._loop = loop
        loop.add_reader(self._in, self._read)

    def send(self, name: str, channel: str, payload: str) -> None:
        """Send to a socket, if it is there; from any thread. What a full receiver cannot take is sent again."""
        data = json.dumps([channel, payload]).encode()
        if not self._sent(name, data) and len(self._kept) < KEPT and self._loop is not None:
            self._kept.append((name, data))
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._later)

    def heard(self, name: str) -> bool:
        """Whether a process reads there. The socket of one that was killed is removed."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
                probe.connect(self._path(name))
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._fd)
            return False
        except FileNotFoundError:
            return False
        except OSError:
            return True  # it is we who cannot look: out of descriptors, for example
        return True

    def close(self) -> None:
        """Hear and send nothing more; called on the loop if it was started."""
        if self._fd < 0:
            return
        self._kept.clear()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._in)
        self._in.close()
        self._out.close()
        with contextlib.suppress(OSError):
            os.unlink(self._name, dir_fd=self._fd)
        os.close(self._fd)
        self._fd = -1

    def _path(self, name: str) -> str:
        return f"/proc/self/fd/{self._fd}/{name}" if sys.platform == "linux" else str(self._folder / name)

    def _sent(self, name: str, data: bytes) -> bool:
        try:
            self._out.sendto(data, self._path(name))
        except BlockingIOError:
            return False
        except OSError:  # it is gone
            return True
        return True

    def _later(self) -> None:
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(RETRY, self._again)

    def _again(self) -> None:
        self._timer = None
        if self._fd < 0:
            return
        for _ in range(len(self._kept)):
            name, data = self._kept.popleft()
            if not self._sent(name, data):
                self._kept.append((name, data))
        if self._kept:
            self._later()

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._fd >= 0:
                try:
                    channel, payload = json.loads(self._in.recv(SIZE))
                except ValueError:
                    continue  # none of ours: anyone can write there
                self._deliver(str(channel), str(payload))
