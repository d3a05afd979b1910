"""Runs pytest as a user does, with aiolock's plugin as the wheel installs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pytest(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in `folder`, in a process of their own."""
    module, path = install(folder)
    # What is installed here, if anything, may be older: ignore it.
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:aiolock", "-p", module, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
    )


def install(folder: Path) -> tuple[str, str]:
    """Put the plugin into a folder; returns its module's name, and the PYTHONPATH with which it can be imported."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    module = settings["project"]["entry-points"]["pytest11"]["aiolock"]
    files = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    (source,) = (ROOT / source for source, target in files.items() if target == f"{module}.py")
    if not source.exists():  # the package is a wheel's, which has moved the file
        source = Path(import_module(module).__file__ or "")
    installed = folder / "installed"
    installed.mkdir()
    shutil.copy(source, installed / f"{module}.py")
    return module, os.pathsep.join([str(installed), str(ROOT)])
