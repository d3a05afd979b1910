"""Real servers of etcd: one for each worker of a run; tests that break one start their own. Asked through its gateway
for JSON, so that nothing of what is tested asks.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from aiolock.testing.server import _free_port

from . import members
from .debian import locked, program
from .running import keep, release

VERSION = "v3.6.6"
"""Built by Go, if it is there and no server is."""
MODULE = f"module server\n\ngo 1.23.0\n\nrequire go.etcd.io/etcd/server/v3 {VERSION}\n"
MAIN = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""


@functools.cache
def binary() -> Path:
    """The program: that in AIOLOCK_TEST_ETCD, on the PATH, built by Go, or Debian's. Skips if there is none."""
    found = os.environ.get("AIOLOCK_TEST_ETCD") or shutil.which("etcd")
    if found:
        return Path(found)
    root = Path(sys.prefix, "etcd")
    if shutil.which("go"):
        with locked(Path(f"{root}.lock")):
            if not root.exists():
                _build(root)
    known = root / "etcd" if root.exists() else program("etcd-server", "etcd", ["etcd-server"])
    if known is not None:
        return known
    pytest.skip(f"no etcd on PATH, no Go to build it, nor in apt: install one, or delete {root}-server to look again")


def _build(root: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="aiolock-go-") as text:
        folder = Path(text)
        (folder / "go.mod").write_text(MODULE)
        (folder / "main.go").write_text(MAIN)
        built = folder / "etcd"
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = ["go", "build", "-mod=mod", "-o", str(built), "."]
            # If that is too long here, what is built until then need not be built again.
            subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=True)
            root.mkdir()
            shutil.move(built, root / "etcd")


class Member(members.Member):
    """One server of a cluster, with its gateway."""

    def ask(self, path: str, body: dict[str, Any] | None = None, timeout: float = 5.0) -> dict[str, Any]:
        """Ask its gateway."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v3/{path}",
            json.dumps(body or {}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


class Etcd:
    """A cluster of its own.

    Args:
        members: how many.
        options: more of their command lines.
        scheme: "https" if these name certificates; then no gateway is asked.

    Attributes:
        members: its servers.
    """

    def __init__(self, members: int = 1, *options: str, scheme: str = "http") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="aiolock-etcd-"))
        self._using = keep(self.folder)
        ports = [(_free_port(), _free_port()) for _ in range(members)]
        everyone = ",".join(f"m{at}=http://127.0.0.1:{peer}" for at, (_, peer) in enumerate(ports))
        self.members = []
        for at, (port, peer) in enumerate(ports):
            client, among = f"{scheme}://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
            command = [
                *(str(binary()), "--name", f"m{at}", "--data-dir", str(self.folder / f"m{at}"), "--log-level", "warn"),
                *("--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", among),
                *("--initial-advertise-peer-urls", among, "--initial-cluster", everyone, "--unsafe-no-fsync"),
            ]
            self.members.append(Member([*command, *options], self.folder / f"m{at}.log", port))

    def start(self) -> Etcd:
        """Start all, and wait for a leader."""
        for member in self.members:
            member.start()
        self.wait()
        return self

    def wait(self, seconds: float = 30.0) -> None:
        """Wait for a leader."""
        end = time.monotonic() + seconds
        while self.leader() is None:
            if time.monotonic() > end:
                raise TimeoutError(self.members[0].log.read_text()[-2000:])
            time.sleep(0.05)

    def leader(self) -> Member | None:
        """The member that leads; None if there is none."""
        for member in self.members:
            with contextlib.suppress(OSError, ValueError):
                status = member.ask("maintenance/status", timeout=1.0)
                if status.get("leader") == status["header"]["member_id"]:
                    return member
        return None

    @property
    def url(self) -> str:
        return "etcd://" + ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask one that answers."""
        for member in self.members[:-1]:
            with contextlib.suppress(OSError):
                return member.ask(path, body)
        return self.members[-1].ask(path, body)

    def revision(self) -> int:
        """That of the last change."""
        return int(self.ask("maintenance/status")["header"]["revision"])

    def pairs(self, first: str, end: str = "") -> list[dict[str, Any]]:
        """The keys from there to before `end`, in the order in which they were created; texts are decoded."""
        body: dict[str, Any] = {"key": text64(first)}
        if end:
            body |= {"range_end": text64(end), "sort_order": "ASCEND", "sort_target": "CREATE"}
        pairs = self.ask("kv/range", body).get("kvs", [])
        return [{**pair, "key": plain(pair["key"]), "value": plain(pair.get("value", ""))} for pair in pairs]

    def delete(self, first: str, end: str = "") -> int:
        """Delete keys; return how many."""
        body = {"key": text64(first)} | ({"range_end": text64(end)} if end else {})
        return int(self.ask("kv/deleterange", body).get("deleted", 0))

    def put(self, key: str, value: str, ttl: int = 0) -> int:
        """Write a key, for so many seconds; return its revision."""
        lease = self.ask("lease/grant", {"TTL": ttl})["ID"] if ttl else 0
        done = self.ask("kv/put", {"key": text64(key), "value": text64(value), "lease": lease})
        return int(done["header"]["revision"])

    def close(self) -> None:
        for member in self.members:
            member.kill()
        release(self._using)

    def __enter__(self) -> Etcd:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


def text64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def plain(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


@functools.cache
def shared() -> Etcd:
    """The server of this worker, until it ends."""
    made = Etcd()
    atexit.register(made.close)
    return made.start()
