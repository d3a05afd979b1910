"""A worker with the scripts of an earlier version, where they differ: `python -m tests.crossproc.released_worker <what>
…`, as for `worker`; the version is in the environment.
"""

from __future__ import annotations

import hashlib
import os
import runpy
from pathlib import Path

from aiolock.scripts.lock import SCRIPTS

RELEASED = Path(__file__).parent / "released"
VERSION = "AIOLOCK_TEST_RELEASED"


def go_back(version: str) -> None:
    """From now on this process runs the scripts of `version`."""
    for script in SCRIPTS:
        copy = RELEASED / version / f"{script.name}.lua"
        if copy.exists():
            script.lua = copy.read_text(encoding="utf-8")
            script.sha = hashlib.sha1(script.lua.encode(), usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    go_back(os.environ[VERSION])
    runpy.run_module("tests.crossproc.worker", run_name="__main__")
