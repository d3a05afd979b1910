"""Every Python block of README.md and of the pages under docs/ runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from .blocks import ROOT, Block, blocks, run
from .preludes import prelude

PYTHON = list(blocks("python"))
FRAGMENTS = [block for block in PYTHON if block.setup != "pytest"]
TEST_FILES = [block for block in PYTHON if block.setup == "pytest"]
NAMED = re.compile(r"# (\w+\.py)\n")
PLUGIN = "aiolock.testing.pytest_plugin"
LOOPS = "asyncio_default_fixture_loop_scope = function\n"


@pytest.mark.parametrize("block", FRAGMENTS, ids=lambda block: block.id)
async def test_a_fragment_runs(block: Block, redis_url: str) -> None:
    """Broken by a call in a page that does not exist; the assertions are the page's, and the prelude's at its end."""
    async with prelude(block.setup)(redis_url) as namespace:
        await run(block, redis_url, namespace)


@pytest.mark.parametrize("block", TEST_FILES, ids=lambda block: block.id)
def test_a_test_file_passes(block: Block, redis_url: str, tmp_path: Path) -> None:
    """A block with tests passes like a user's file: in a pytest of its own, with the installed plugin."""
    for other in PYTHON:  # a program of the same page, which says its name: the last of them that stands above
        if other.page == block.page and other.line < block.line and (named := NAMED.match(other.text)):
            (tmp_path / named[1]).write_text(other.source(redis_url), encoding="utf-8")
    (tmp_path / "test_block.py").write_text(block.source(redis_url), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\nasyncio_mode = auto\n{LOOPS}filterwarnings = error\n", encoding="utf-8"
    )
    installed = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
    options = [] if installed else ["-p", PLUGIN]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *options],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{block.text.count('def test_')} passed" in done.stdout


def environment() -> dict[str, str]:
    """This process's environment, with aiolock importable wherever it is installed."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
