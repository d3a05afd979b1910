"""What the programs of frameworks.md do if another process has the lock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from aiolock.sync import LockManager

from .blocks import ROOT, of


def test_a_job_that_another_worker_has(tmp_path: Path) -> None:
    program = next(
        block.text for block in of(ROOT / "docs/how-to/frameworks.md") if block.text.startswith("# job.py\n")
    )
    with LockManager(f"sqlite:///{tmp_path}/locks.db") as locks, locks.lock("nightly-report"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            check=True,
        )
    assert done.stdout == "another worker has it\n"
