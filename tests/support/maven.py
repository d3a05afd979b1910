"""Jars from Maven's repositories, fetched once, beside our Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .debian import locked


def jars(pom: Path, name: str, *options: str) -> Path:
    """Return the folder with all jars that a project needs. Skips the test where they cannot be had.

    Args:
        pom: the project.
        name: of the folder.
        options: of Maven.
    """
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
    folder = Path(sys.prefix, name)
    with locked(Path(f"{folder}.lock")):
        if not (folder / "complete").exists():
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options]
            fetched = subprocess.run([*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True)
            if fetched.returncode:
                pytest.skip(f"Maven found no {name}: {fetched.stdout.strip()[:300]}")
            (folder / "complete").touch()
    return folder
