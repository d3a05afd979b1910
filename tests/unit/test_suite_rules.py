"""The suite's own guards: a green run means that something was tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_SERVER = """
import pytest
@pytest.mark.skip
def test_with_a_server(redis_server): ...
def test_without(): assert True
"""
LEFT_TASK = """
import asyncio
async def test_left(): asyncio.get_running_loop().left = asyncio.create_task(asyncio.sleep(60))
"""
UNRETRIEVED = """
import asyncio
async def test_unretrieved():
    asyncio.get_running_loop().create_future().set_exception(ValueError("nobody looked"))
"""
WARNED = """
import warnings
def test_warned(): warnings.warn("deprecated", DeprecationWarning)
"""
LOOPS = """
import asyncio, pytest
seen = set()
@pytest.mark.any_loop
async def test_loop(): seen.add(type(asyncio.get_running_loop()).__module__.partition(".")[0])
def test_both(): assert seen == {"asyncio", "uvloop"}
"""


def run(tmp_path: Path, source: str, *args: str) -> tuple[int, str]:
    """Run one test file under the suite's rules."""
    (tmp_path / "test_it.py").write_text(source)
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", "-c", "pyproject.toml"]
    done = subprocess.run([*command, *args, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_run_that_met_no_server_fails(tmp_path: Path) -> None:
    code, output = run(tmp_path, NO_SERVER)
    assert "no test met a real server" in output
    assert code == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("source", "complaint"),
    [(LEFT_TASK, "tasks left"), (UNRETRIEVED, "nobody looked"), (WARNED, "DeprecationWarning")],
    ids=["task", "exception", "warning"],
)
def test_what_fails_a_test(source: str, complaint: str, tmp_path: Path) -> None:
    code, output = run(tmp_path, source)
    assert complaint in output
    assert code == pytest.ExitCode.TESTS_FAILED


def test_any_loop_means_both(tmp_path: Path) -> None:
    code, output = run(tmp_path, LOOPS)
    assert code == pytest.ExitCode.OK, output
