"""Servers that tests start end with the process that uses them, also if it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.runs import ROOT

from .database import Database

USES = """
import sys
from {module} import {kind} as Kind
server = Kind()
print(server.running.process.pid, server.running.folder, flush=True)
sys.stdin.read()
"""
SHARES = """
import os, signal, sys
from pathlib import Path
from tests.support.running import shared
from {module} import Running
def begin():
    made = Running(Path(sys.argv[1]))
    made.leave()
    return str(made.process.pid)
told = shared(Path(sys.argv[1]), begin)
child = os.fork()
if not child:
    signal.pause()  # it knows nothing of servers
print(told, sys.argv[1], child, flush=True)
sys.stdin.read()
"""
pytestmark = pytest.mark.slow
ENOUGH = 60.0


def started(code: str, *words: str) -> tuple[subprocess.Popen[str], psutil.Process, Path, list[str]]:
    """A process that uses a server; the server, its folder, and what else it says."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    number, folder, *more = process.stdout.readline().split()
    return process, psutil.Process(int(number)), Path(folder), more


def gone(server: psutil.Process, folder: Path) -> bool:
    """Whether it and its files are, soon."""
    until = time.monotonic() + ENOUGH
    while (server.is_running() and server.status() != psutil.STATUS_ZOMBIE) or folder.exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def kill(process: subprocess.Popen[str]) -> None:
    with process:
        process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("frozen", [False, True])
def test_who_has_a_server_of_its_own_is_killed(product: type[Database], frozen: bool) -> None:
    """Kept by keep()."""
    module, kind = product.server.__module__, product.server.__name__
    process, server, folder, _ = started(USES.format(module=module, kind=kind))
    if frozen:
        server.send_signal(signal.SIGSTOP)
    kill(process)
    assert gone(server, folder)


def test_those_who_share_a_server_are_killed(product: type[Database], tmp_path_factory: pytest.TempPathFactory) -> None:
    """The last of them ends it. Kept by shared(), and for a forked child by _leave()."""
    folder = tmp_path_factory.mktemp("shared") / "server"
    code = SHARES.format(module=product.server.__module__)
    one, server, _, children = started(code, str(folder))
    two, again, _, more = started(code, str(folder))
    try:
        assert again == server
        kill(one)
        assert server.is_running()
        assert folder.exists()
        kill(two)
        assert gone(server, folder)
    finally:
        for child in (*children, *more):
            os.kill(int(child), signal.SIGKILL)
