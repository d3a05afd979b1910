"""A run from the command line, complete and interrupted."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiolock.testing.server import DOCKER_VARIABLE, URL_VARIABLE

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
RUN = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("benchmarks", run_name="__main__", alter_sys=True)
"""
pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups")


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Run in a session of its own, as in a terminal.

    An interrupt counts there, even if a shell runs the tests in the background, where they would ignore it.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", RUN, "--quick", "--folder", str(folder), *words],
        cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip


def alive(group: int) -> int:
    """Count the processes of a group, without dead ones that were not yet reaped."""
    if Path("/proc/self/stat").exists():
        stats = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                stats.append(path.read_text().rpartition(")")[2].split())
            except OSError:
                continue
        return sum(int(fields[2]) == group and fields[0] not in "ZX" for fields in stats)
    listing = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return sum(int(line.split()[0]) == group and "Z" not in line for line in listing.splitlines())


def until(check: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.02)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_an_interrupted_run_leaves_nothing(how: signal.Signals, tmp_path: Path, redis_server: object) -> None:
    """Broken by a server that outlives the run, or by workers that ignore the end of their standard input.

    Row D has workers of a worker, which the run itself does not know.
    """
    run = start(tmp_path, "--rows", "D", "--peers", "none")
    assert run.stderr is not None
    try:
        told = run.stderr.readline()
        until(lambda: alive(run.pid) >= 6)  # the run, the row, and four that contend
        if how is signal.SIGINT:
            os.killpg(run.pid, how)
        else:
            run.send_signal(how)
        assert run.wait(PATIENCE) == (130 if how is signal.SIGINT else -how)
        until(lambda: not alive(run.pid))
        port = re.search(r":(\d+)>", told)
        assert port is not None
        reaped = how is signal.SIGKILL and os.environ.get(DOCKER_VARIABLE) == "1"  # by testcontainers, later
        if URL_VARIABLE not in os.environ and not reaped:
            until(lambda: not listens(int(port[1])))
        assert list(tmp_path.iterdir()) == []
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()


def test_a_run_writes_results_report_and_plots(tmp_path: Path, redis_server: object) -> None:
    run = start(tmp_path, "--rows", "B", "--peers", "none")
    output, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    assert "[ 1/1] B  uncontended" in errors
    (path,) = tmp_path.glob("*.json")
    results = json.loads(path.read_text())
    assert path.name == f"{results['taken'][:10]}-{results['environment']['fingerprint']}-quick.json"
    assert [figure["row"] for figure in results["figures"]] == ["B", "B", "B"]
    assert not any(figure["value"] is None for figure in results["figures"]), results["figures"]
    assert socket.gethostname() not in path.read_text()
    report = path.with_suffix(".md").read_text()
    assert report in output
    assert "row E, waiting: left out of this run" in report
