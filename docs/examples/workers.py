"""The demo's processes: workers that serve the shop, and a reaper that cleans up after them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx

SHOP = Path(__file__).with_name("shop.py")

_REAP = """
import os, shutil, signal, sys
children = set()
for line in sys.stdin:
    what, pid = line.split()
    (children.add if what == "watch" else children.discard)(int(pid))
for pid in children:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


class Reaper:
    """A process that kills the demo's children and removes its directory once the demo is gone.

    It notices when a pipe closes, which happens whether the demo ended, raised, was interrupted, or was killed.

    Args:
        directory: the directory to remove.
    """

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-c", _REAP, str(directory)]
        # A process group of its own: Ctrl-C in a terminal reaches only the demo, which then decides.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, bufsize=1, process_group=0)

    def watch(self, pid: int) -> None:
        """Kill this process at the end."""
        self._tell(f"watch {pid}")

    def forget(self, pid: int) -> None:
        """Do not kill this process: it has ended, and the system may reuse its id."""
        self._tell(f"forget {pid}")

    def reap(self) -> None:
        """Kill all processes that are left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")


def browser() -> httpx.AsyncClient:
    """Return an HTTP client for 127.0.0.1 only: no proxy, no certificates, a long timeout."""
    return httpx.AsyncClient(trust_env=False, verify=False, timeout=60.0)


class Answer(NamedTuple):
    """The answer to a buyer; status 0 if the connection broke."""

    status: int
    body: dict[str, Any]
    at: float


class Worker:
    """One uvicorn process that serves the shop on a port of its own.

    Args:
        name: its name in the table.
        log: the file for its output.
        reaper: cleans up the process.
        http: the client to use for requests.
        settings: its environment; see shop.py.
    """

    def __init__(self, name: str, log: Path, reaper: Reaper, http: httpx.AsyncClient, settings: dict[str, str]) -> None:
        self.name = name
        self._http = http
        self._log = log
        self._reaper = reaper
        # Listen before the worker runs: the port is known, and early requests wait instead of failing.
        with socket.create_server(("127.0.0.1", 0)) as listener, log.open("w") as output:
            self._url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self._process = subprocess.Popen(
                [sys.executable, str(SHOP), str(listener.fileno())],
                pass_fds=[listener.fileno()],
                env={**os.environ, **settings, "SHOP_WORKER": name},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        reaper.watch(self._process.pid)

    async def ready(self) -> None:
        """Wait until the worker serves.

        Raises:
            RuntimeError: it ended instead; the message has its output.
        """
        try:
            (await self._http.get(f"{self._url}/metrics")).raise_for_status()
        except httpx.HTTPError as error:
            raise RuntimeError(f"{self.name} did not start: {error!r}\n{self.output()}") from error

    async def buy(
        self,
        sku: str,
        customer: str,
        *,
        payment: float = 0.005,
        path: str = "buy",
        http: httpx.AsyncClient | None = None,
    ) -> Answer:
        """Buy one item over HTTP, with this client or the shared one."""
        params: dict[str, str | float] = {"customer": customer, "payment": payment}
        try:
            response = await (http or self._http).post(f"{self._url}/{path}/{sku}", params=params)
        except httpx.TransportError as error:
            return Answer(0, {"detail": type(error).__name__}, time.monotonic())
        body = response.json() if response.headers.get("content-type") == "application/json" else {}
        return Answer(response.status_code, body, time.monotonic())

    def freeze(self) -> None:
        """Send SIGSTOP: the worker stands still until `thaw()`."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT: the worker resumes where it was."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL: the worker runs no more code."""
        self._process.kill()
        self._process.wait()
        self._reaper.forget(self._process.pid)

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the worker has not ended after 5 s."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, 5.0)
        self.kill()

    def output(self) -> str:
        """Return the last 4000 characters that the worker printed."""
        return self._log.read_text(errors="replace")[-4000:]
