"""Three members of etcd on free ports, for the demo."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from workers import Reaper

MEMBERS = 3
PATIENCE = 30.0


class NoEtcd(Exception):
    """There is no program to start."""


class Etcd:
    """A cluster; entering it starts it and waits for a leader.

    Args:
        directory: where it keeps its data.
        reaper: ends it if the demo is killed.

    Raises:
        NoEtcd: there is no `etcd` on the PATH.
    """

    def __init__(self, directory: Path, reaper: Reaper) -> None:
        program = shutil.which("etcd")
        if program is None:
            raise NoEtcd("no etcd on the PATH: install one, see https://etcd.io/docs/latest/install/")
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2 * MEMBERS)]
            ports = [one.getsockname()[1] for one in sockets]
        clients, peers = ([f"http://127.0.0.1:{port}" for port in some] for some in (ports[:MEMBERS], ports[MEMBERS:]))
        everyone = ",".join(f"m{at}={peer}" for at, peer in enumerate(peers))
        self._commands = [
            *(
                [
                    *(program, "--name", f"m{at}", "--data-dir", str(directory / f"m{at}"), "--log-level", "error"),
                    *("--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer),
                    *("--initial-advertise-peer-urls", peer, "--initial-cluster", everyone),
                ]
                for at, (client, peer) in enumerate(zip(clients, peers, strict=True))
            ),
        ]
        self.url: str = "etcd://" + ",".join(client.removeprefix("http://") for client in clients)
        self._clients = clients
        self._reaper = reaper
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for command in self._commands:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)
            self._running.append(process)
            self._reaper.watch(process.pid)
        end = time.monotonic() + PATIENCE
        while not self._leads():
            if time.monotonic() > end:
                self.__exit__()
                raise TimeoutError(f"no member of etcd leads after {PATIENCE:g} s")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            self._end(process)

    def kill_leader(self) -> None:
        """Kill the member that leads."""
        (leader,) = self._leads()
        self._end(self._running[leader])

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self._reaper.forget(process.pid)

    def _leads(self) -> list[int]:
        return [at for at, client in enumerate(self._clients) if _metric(client, "etcd_server_is_leader") == "1"]


def _metric(client: str, name: str) -> str:
    """Return what a member says of itself; "" if it does not answer."""
    with suppress(OSError, urllib.error.URLError), urllib.request.urlopen(f"{client}/metrics", timeout=1.0) as answer:
        for line in answer:
            what, _, value = line.decode().strip().partition(" ")
            if what == name:
                return str(value)
    return ""
