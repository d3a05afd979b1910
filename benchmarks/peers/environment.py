"""A virtual environment for each library, because their dependencies clash; kept under `.bench_cache`."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from ..crew import ROOT
from . import Peer

CACHE = ROOT / ".bench_cache"
BASE = "redis[hiredis]"
PATIENCE = 180.0


class Unavailable(Exception):
    """The library is not available here; the message says why."""


def python_of(peer: Peer) -> str:
    """Return an interpreter that has the library and redis-py; built at the first use, blocks.

    Raises:
        Unavailable: it could not be installed.
    """
    if not peer.requirements:
        return sys.executable
    version = ".".join(map(str, sys.version_info[:2]))
    mark = hashlib.sha256(repr((sys.executable, peer.requirements)).encode()).hexdigest()[:8]
    folder = CACHE / f"{peer.folder}-{version}-{mark}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        options = ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "10"]
        _run([str(python), "-m", "pip", "install", *options, *peer.requirements, BASE])
        (folder / "ready").touch()
    return str(python)


def _run(words: list[str]) -> None:
    Path(CACHE).mkdir(exist_ok=True)
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"its installation took longer than {PATIENCE:.0f} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise Unavailable(f"could not be installed: {(lines or ['no reason given'])[-1][:200]}")
