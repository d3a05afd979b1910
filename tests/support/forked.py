"""Processes that start quickly: forked from one that has imported what they need, and nothing else.

An interpreter takes 0.2 s of a core until it can use the library; a fork takes 0.01. Where there are no subreapers (not
Linux), interpreters are started.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import types
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
PR_SET_CHILD_SUBREAPER = 36
MOST = 1 << 20
"""Bytes of a request."""


class Forked(subprocess.Popen[bytes]):
    """`python <words>`, as a child of this process like any other.

    Args:
        words: Python's arguments: `-W error` or nothing, then `-m <module>` or `-c <program>`, and theirs.
        env: its environment.
        cwd: its folder.
        stdin, stdout, stderr: as for `subprocess.Popen`.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: int | IO[bytes] | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> None:
        self._request = {"words": list(words), "env": dict(env), "cwd": str(cwd)}
        super().__init__([sys.executable, *words], env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr)

    if sys.platform == "linux":

        def _execute_child(self, *arguments: Any) -> None:
            p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = arguments[10:16]
            streams = [own if own != -1 else number for number, own in enumerate((p2cread, c2pwrite, errwrite))]
            self.pid = _nursery().fork(json.dumps(self._request).encode(), streams)
            self._child_created = True
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


class Nursery:
    """The process that forks them."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forked", str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": path}, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip
        atexit.register(self.close)

    def fork(self, request: bytes, streams: Sequence[int]) -> int:
        """Return the id of a new process, which is a child of ours once its parent, which started it, has ended."""
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._socket, [request], streams)
            pid = int(self._socket.recv(100))
            ended = self._socket.recv(100)
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert ended == b"ended", ended
        return pid

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def _nursery() -> Nursery:
    return Nursery()


def serve(requests: socket.socket) -> list[str] | None:
    """Fork until nobody asks any more. Return in the forked process, too: with what it is to run."""
    while True:
        try:
            request, streams, _, _ = socket.recv_fds(requests, MOST, 3)
        except KeyboardInterrupt:
            return None
        if not request:
            return None
        parent = os.fork()
        if parent == 0:
            between = os.getpid()
            if pid := os.fork():
                requests.send(str(pid).encode())
                os._exit(0)
            requests.close()
            while os.getppid() == between:  # a process that asks to die with its parent must not mean this one
                os.sched_yield()
            return _become(streams, **json.loads(request))
        for stream in streams:
            os.close(stream)
        os.waitpid(parent, 0)
        requests.send(b"ended")


def _become(streams: Sequence[int], words: list[str], env: dict[str, str], cwd: str) -> list[str]:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    if words[:2] == ["-W", "error"]:
        warnings.simplefilter("error")
        words = words[2:]
    return words


def run(how: str, what: str, *arguments: str) -> None:
    """Run a module (`-m`) or a program (`-c`) as an interpreter would that was just started for it."""
    sys.argv = [how, *arguments]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    import asyncio  # noqa: F401
    import sqlite3  # noqa: F401

    import tests.crossproc.counter
    import tests.crossproc.noting
    import tests.crossproc.resource
    import tests.histories.journal
    import tests.histories.uses  # noqa: F401

    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        wanted = serve(listening)
    if wanted is not None:
        run(*wanted)
