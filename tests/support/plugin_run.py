"""Runs pytest as a user does, with aiolock's plugin as it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGIN: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][
    "pytest11"
]["aiolock"]
"""The module of the plugin."""
OPTIONS = ("-p", "no:aiolock", "-p", PLUGIN)
"""Use that of this checkout: what is installed here, if anything, may be older."""


def pytest(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in `folder`, in a process of their own."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )
