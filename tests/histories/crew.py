"""The workers of a round: started, stopped, killed and replaced."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.forked import Forked

from .journal import Journal
from .lookout import Lookout
from .network import Network
from .plan import Plan
from .resource import Resource

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
"""A machine that does other work starts processes slowly."""


class Crew:
    """Worker processes that share a folder.

    Args:
        plan: what they do.
        place: how they get a manager.
        folder: for the journal and everything else.
        network: their way to the servers.
        journal: the runner's.
        lookout: sees who is ready.
        resource: the runner's view of it.
    """

    def __init__(
        self, plan: Plan, place: dict[str, Any], folder: Path, network: Network, journal: Journal, lookout: Lookout,
        resource: Resource,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._place = place
        self._folder = folder
        self._network = network
        self._journal = journal
        self._lookout = lookout
        self._resource = resource
        self._generation = 0
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.failed: list[str] = []

    async def start(self) -> None:
        """Start all, and return once each is ready."""
        for number in range(self._plan.workers):
            await self._start(number)
        await self._ready()

    @property
    def pids(self) -> set[int]:
        return {process.pid for process in self.processes.values()}

    def linger(self, seconds: float) -> None:
        """Let many hold what they have for so long."""
        for worker in self.processes:
            self._tell(worker, "linger", seconds)

    def dead(self) -> list[int]:
        """Processes that ended though nobody killed them."""
        return [process.pid for process in self.processes.values() if process.poll() is not None]

    async def end(self, seconds: float) -> None:
        """Let all end what they do; a process that does not in time, or ends with an error, is in `failed`."""
        for number in self.processes:
            self._tell(number, "enough")
        until = asyncio.get_running_loop().time() + seconds
        for process in self.processes.values():
            while process.poll() is None and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110 - of processes
                await asyncio.sleep(0.02)
            if process.poll() is None:
                self.failed.append(f"process {process.pid} did not end within {seconds:.0f} s")
            elif process.returncode:
                self.failed.append(f"process {process.pid} ended with {process.returncode}")

    def close(self) -> None:
        """Kill whoever is left."""
        for process in self.processes.values():
            if process.poll() is None:
                self._kill(process)
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def errors(self) -> str:
        """What they wrote on their standard error."""
        return (self._folder / "stderr").read_text(errors="replace")

    def strike(self, what: str, number: int, seconds: float) -> AbstractAsyncContextManager[None]:
        """A fault of a kind: it begins with the context and ends with it.

        Args:
            what: the kind.
            number: which worker, modulo how many there are.
            seconds: how long it will last.
        """
        found: AbstractAsyncContextManager[None] = getattr(self, what)(number % len(self.processes), seconds)
        return found

    @asynccontextmanager
    async def stop(self, number: int, seconds: float) -> AsyncIterator[None]:
        """SIGSTOP, outside of a write to the resource; it continues at the end."""
        process = self.processes[number]
        with self._resource.still():
            os.kill(process.pid, signal.SIGSTOP)
            _, status = os.waitpid(process.pid, os.WUNTRACED)  # noqa: ASYNC222 - it stops at once
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            raise AssertionError(f"worker {number} ended by itself:\n{self.errors()[-4000:]}")
        try:
            yield
        finally:
            os.kill(process.pid, signal.SIGCONT)

    @asynccontextmanager
    async def kill(self, number: int, seconds: float) -> AsyncIterator[None]:
        """SIGKILL; at the end another process takes its place."""
        process = self.processes[number]
        self._kill(process)
        process.wait()
        try:
            yield
        finally:
            await self._start(number)
        await self._ready()

    @asynccontextmanager
    async def block(self, number: int, seconds: float) -> AsyncIterator[None]:
        """A call in it blocks its loop."""
        self._tell(number, "block", seconds)
        yield

    @asynccontextmanager
    async def fork(self, number: int, seconds: float) -> AsyncIterator[None]:
        """It forks, and the child enters a manager of its own."""
        self._tell(number, "fork")
        yield

    @asynccontextmanager
    async def cancel(self, number: int, seconds: float) -> AsyncIterator[None]:
        """Operations of all workers are cancelled, once or twice."""
        for worker in self.processes:
            self._tell(worker, "cancel", 1 + number % 6)
        yield

    async def _start(self, number: int) -> None:
        self._generation += 1
        given = {
            "place": self._place, "options": self._plan.options, "uses": self._plan.uses,
            "seed": f"{self._plan.seed}:{self._generation}", "number": number, "workers": self._plan.workers,
            "folder": str(self._folder), "routes": await self._network.routes(number),
        }  # fmt: skip
        old = self.processes.get(number)
        if old is not None and old.stdin is not None:
            old.stdin.close()
        words = ["-W", "error", "-m", "tests.histories.worker", json.dumps(given)]
        with (self._folder / "stderr").open("ab") as errors:
            streams: Any = {"stdin": subprocess.PIPE, "stdout": errors, "stderr": errors}
            if environment := self._place.get("environment"):  # which a forked process cannot have
                self.processes[number] = subprocess.Popen(  # noqa: ASYNC220
                    [sys.executable, *words], env=os.environ | environment, cwd=ROOT, **streams
                )
            else:
                self.processes[number] = Forked(words, env=os.environ, cwd=ROOT, **streams)

    async def _ready(self) -> None:
        async with asyncio.timeout(START_SECONDS):
            while not self.pids <= self._lookout.ready:
                self._lookout.look()
                if self.dead():
                    raise AssertionError(f"a worker did not start:\n{self.errors()[-4000:]}")
                await asyncio.sleep(0.02)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        self._journal.note("killed", process=process.pid)
        process.kill()

    def _tell(self, number: int, *words: object) -> None:
        stdin = self.processes[number].stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(words).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:  # it ended; `dead` says so
            return
