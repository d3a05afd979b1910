"""Worker processes: started here, asked for results, and ended together with this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PATIENCE = 600.0
"""Seconds that one request may take; next to no row takes nearly that long."""


class WorkerFailed(Exception):
    """A worker raised, died, or did not answer; the message says which."""


class Worker:
    """A process that runs functions of this package.

    Args:
        python: its interpreter; by default this one.
        loop: "asyncio" or "uvloop".
        patience: seconds that one request may take.
    """

    def __init__(self, python: str = sys.executable, loop: str = "asyncio", patience: float = PATIENCE) -> None:
        self._loop = loop
        self._patience = patience
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def call(self, function: str, **arguments: Any) -> Any:
        """Run `module:function` in the worker and return its result; blocks.

        Raises:
            WorkerFailed: the function raised, or the process died.
        """
        self.send(function, **arguments)
        return self.receive()

    def send(self, function: str, **arguments: Any) -> None:
        """Send a request; call `receive` later."""
        assert self._process.stdin is not None
        request = json.dumps({"call": function, "arguments": arguments, "loop": self._loop})
        try:
            print(request, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise WorkerFailed(f"a worker died: {self._last_words()}") from None

    def receive(self) -> Any:
        """Return the answer to the oldest request; blocks."""
        assert self._process.stdout is not None
        timer = threading.Timer(self._patience, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise WorkerFailed(f"no answer within {self._patience:.0f} s, or died: {self._last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerFailed(f"{answer['error']}\n{answer['trace']}")
        return answer["result"]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._errors.close()

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:].decode(errors="replace")


@contextmanager
def crew(
    number: int, python: str = sys.executable, loop: str = "asyncio", patience: float = PATIENCE
) -> Iterator[Sequence[Worker]]:
    """Start this many workers; end them whatever happens."""
    workers: list[Worker] = []
    try:
        for _ in range(number):
            workers.append(Worker(python, loop, patience))
        yield workers
    finally:
        for worker in workers:
            worker.close()


def together(workers: Sequence[Worker], function: str, **arguments: Any) -> list[Any]:
    """Send the same request to all of them at once, and wait for all answers."""
    for worker in workers:
        worker.send(function, **arguments)
    return [worker.receive() for worker in workers]
