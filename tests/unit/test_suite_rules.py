"""The suite's own guards: a green run means that something was tested, and a red one names the culprit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = """
import asyncio, gc, warnings
import pytest

async def test_left_a_task():
    asyncio.get_running_loop().left = asyncio.create_task(asyncio.sleep(60))

async def test_unretrieved():
    asyncio.get_running_loop().create_future().set_exception(ValueError("nobody looked"))

def test_warned(): warnings.warn("deprecated", DeprecationWarning)

async def fail(): raise ValueError("of a stray")

async def test_failed():
    stray = asyncio.create_task(fail())
    await asyncio.sleep(0)
    assert stray is None

async def test_innocent(): gc.collect()

seen = set()

@pytest.mark.any_loop
async def test_loop(): seen.add(type(asyncio.get_running_loop()).__module__.partition(".")[0])

def test_both(): assert seen == {"asyncio", "uvloop"}
"""
GREEN = """
import asyncio
import pytest

@pytest.mark.skip
def test_with_a_server(redis_server): ...

kept = []

async def test_kept():
    kept.append(asyncio.get_running_loop().create_future())
    kept[0].set_exception(ValueError("seen late"))

def test_forgets(): kept.clear()
"""
HANGING = """
import time

def test_hangs(): time.sleep(60)
"""


NEEDLESS = ("randomly", "cacheprovider", "hypothesispytest", "anyio", "faker", "valkey")
"""Plugins that take half of the time of such a short run."""


def run(folder: Path, source: str, *args: str) -> tuple[int, str]:
    """Run one test file under the suite's rules."""
    (folder / "test_it.py").write_text(source)
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    without = [word for name in NEEDLESS for word in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", *without, *args, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def failures(output: str) -> dict[str, str]:
    """What is reported of each test that failed."""
    parts = re.split(r"^_+ (?:ERROR at \w+ of )?(test_\w+) _+$", output, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_what_fails_a_test(tmp_path: Path) -> None:
    code, output = run(tmp_path, RULES)
    told = failures(output)
    assert set(told) == {"test_left_a_task", "test_unretrieved", "test_warned", "test_failed"}, output
    assert "tasks left" in told["test_left_a_task"]
    assert "nobody looked" in told["test_unretrieved"]
    assert "DeprecationWarning" in told["test_warned"]
    assert re.search("left behind by this test .*of a stray", told["test_failed"], re.S)
    assert "failed as a whole" not in output
    assert code == pytest.ExitCode.TESTS_FAILED


@pytest.mark.slow
def test_what_fails_a_run(tmp_path: Path) -> None:
    """Although each of its tests passes; its workers tell the run what they saw."""
    code, output = run(tmp_path, GREEN, "-n1")
    assert "2 passed, 1 skipped" in output
    assert "no test met a real server" in output
    assert re.search("test_kept left this error behind, unretrieved: .*seen late", output)
    assert code == pytest.ExitCode.TESTS_FAILED


@pytest.mark.slow
def test_a_worker_that_hangs_says_where(tmp_path: Path) -> None:
    code, output = run(tmp_path, HANGING, "-n1", "-o", "faulthandler_timeout=0.5")
    assert "in test_hangs" in output
    assert "crashed while running 'test_it.py::test_hangs'" in output
    assert code == pytest.ExitCode.TESTS_FAILED
