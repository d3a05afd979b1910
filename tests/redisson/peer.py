"""A process with locks, a JVM or one of ours, driven over a pipe: see java/Driver.java and worker.py."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
JAVA = Path(__file__).parent / "java"
BUILT = ROOT / "build" / "redisson"
VERSIONS = os.environ.get("AIOLOCK_TEST_REDISSON", "3.52.0 4.7.0").split()
"""The newest 3.x and the newest 4.x."""
PATIENCE = 30.0
"""Seconds for anything that does not wait for a lock: a JVM may stand still for long on a busy machine."""


class Said(NamedTuple):
    """An answer, with the times at which its process began and ended what was asked, in seconds of the wall clock."""

    began: float
    ended: float
    value: str


class PeerError(Exception):
    """What was asked has raised: the class of the exception, and its message."""


class Peer:
    """The process; `with` ends it, as a kill would.

    Args:
        command: what starts it.
        url: the server's.
        ttl_ms: the ttl of its locks without a ttl of their own: of a JVM the watchdog's.
        more: arguments of the command.

    Attributes:
        id: what its owners begin with.
    """

    def __init__(self, command: Sequence[str], url: str, ttl_ms: int, *more: str) -> None:
        self._ids = itertools.count(1)
        self._asked: dict[str, Future[Said]] = {}
        self._process = subprocess.Popen(
            [*command, url, str(ttl_ms), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        _, self.id, self.version = self._process.stdout.readline().split()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # also a frozen one
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:  # what was written last
                continue

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, began, ended, word, *rest = line.rstrip("\n").split(" ", 4)
            asked, what = self._asked.pop(number), rest[0] if rest else ""
            if word == "ok":
                asked.set_result(Said(int(began) / 1e6, int(ended) / 1e6, what))
            else:
                asked.set_exception(PeerError(what))

    def ask(self, task: str, command: str, *words: object) -> Future[Said]:
        """Begin something in one of its tasks or threads, which does one thing after the other."""
        number = str(next(self._ids))
        asked = self._asked[number] = Future()
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, (number, task, command, *words))) + "\n")
        return asked

    def do(self, task: str, command: str, *words: object) -> str:
        """Do something; return what it returned."""
        return self.ask(task, command, *words).result(PATIENCE).value

    def kill(self) -> None:
        """As an out-of-memory kill does."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)


def start_python(url: str, ttl_ms: int) -> Peer:
    """Start a process with a manager."""
    return Peer([sys.executable, "-W", "error", "-m", "tests.redisson.worker"], url, ttl_ms)


def start_java(version: str, url: str, ttl_ms: int, *more: str) -> Peer:
    """Start a JVM with a Redisson client; `more` as Driver.java has it."""
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    return Peer(["java", *options, "-cp", classpath(version), "Driver"], url, ttl_ms, *more)


@functools.cache
def classpath(version: str) -> str:
    """Fetch the jars of a version, and compile the driver. Skips the test where that cannot be."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
    folder = BUILT / version
    jars = folder / "lib"
    if not (folder / "complete").exists():
        fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-Dredisson.version={version}"]
        done = subprocess.run([*fetch, f"-DoutputDirectory={jars}"], cwd=JAVA, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"Maven found no Redisson {version}: {done.stdout.strip()[:300]}")
        (folder / "complete").touch()
    driver, source = folder / "Driver.class", JAVA / "Driver.java"
    if not driver.exists() or driver.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", folder, source], check=True)
    return f"{jars}/*:{folder}"
