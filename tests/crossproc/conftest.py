"""Real processes that end with the test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from aiolock import FairLock, RWLock, Semaphore
from tests.histories.history import History
from tests.histories.journal import Events, Journal
from tests.histories.verdict import judge
from tests.support.forked import Forked

from .resource import Resource

ROOT = Path(__file__).parents[2]
LIVENESS = 1.0
"""For processes that die. The others send a heartbeat once a second, and have three seconds."""
LATE = 3.0
"""What a noisy machine may add to a bound."""


class Crew:
    """Starts worker processes that share a folder.

    Args:
        url: the server's.
        folder: for the journal and everything else.
        module: what the workers run.
    """

    def __init__(self, url: str, folder: Path, module: str = "tests.crossproc.worker") -> None:
        self.url = url
        self.folder = folder
        self._module = module
        self.journal = Journal(folder / "journal")
        self._events = Events(folder / "journal")
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**os.environ, "PYTHONPATH": path, "AIOLOCK_URL": self.url, "AIOLOCK_FOLDER": str(self.folder)}

    def start(self, what: str, *arguments: object, url: str | None = None) -> subprocess.Popen[bytes]:
        """Start a worker; it runs until its work is done or it is killed."""
        words = [
            "-W",
            "error",
            "-m",
            self._module,
            what,
            url or self.url,
            str(self.folder),
            *map(str, arguments),
        ]
        return self._track(Forked, words)

    def run(self, *words: str) -> subprocess.Popen[bytes]:
        """Start an interpreter of its own, in a process group of its own: it may fork."""
        return self._track(partial(subprocess.Popen, start_new_session=True), [sys.executable, *words])

    def _track(self, start: Callable[..., subprocess.Popen[bytes]], words: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "stderr").open("ab") as errors:
            process = start(
                words, env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            )
        self._processes.append(process)
        return process

    def events(self, event: str | None = None) -> list[dict[str, object]]:
        """Return what was noted so far."""
        found = self._events.so_far()
        return found if event is None else [line for line in found if line["event"] == event]

    async def until(self, check: Callable[[], object], seconds: float = 60.0) -> None:
        """Poll for what other processes do."""
        try:
            async with asyncio.timeout(seconds):
                while not check():  # noqa: ASYNC110 - what servers and processes do sets no event here
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"did not happen within {seconds} s; workers said:\n{self.errors()}") from None

    async def done(self, *processes: subprocess.Popen[bytes], seconds: float = 60.0) -> None:
        """Wait until they ended without an error."""
        await self.until(lambda: all(process.poll() is not None for process in processes), seconds)
        assert [process.returncode for process in processes] == [0] * len(processes), self.errors()

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Send SIGSTOP; return once the process stands still, outside a write to the resource."""
        with Resource(str(self.folder / "resource")).still():
            os.kill(process.pid, signal.SIGSTOP)
            _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it ended before it was stopped; workers said:\n{self.errors()}"

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Send SIGKILL, and wait until it has ended."""
        self.journal.note("killed", process=process.pid)
        process.kill()
        process.wait()

    def judge(self) -> History:
        """Return what was noted, once all models have found that it is as it must be."""
        history = History(self.events())
        violations = judge(history)
        assert not violations, "\n".join(map(str, violations))
        return history

    def errors(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")[-4000:]

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # what it forked; a worker of ours leads no group
            process.wait()


@pytest.fixture
def crew(redis_url: str, tmp_path: Path) -> Iterator[Crew]:
    """Workers on the shared server."""
    crew = Crew(redis_url, tmp_path)
    yield crew
    crew.close()


async def queued(lock: FairLock | RWLock | Semaphore, waiters: int) -> None:
    """Wait until this many are in the server's queue."""
    async with asyncio.timeout(20):
        while (info := await lock.info()) is None or info.waiters != waiters:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
