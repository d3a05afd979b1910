"""Old and new processes share one server during a deployment: their scripts must understand each other's keys.

`released/<version>.json` lists the hash of each script as it was released. If you must change a script:

1. Copy the released one, from the version's tag, to `released/<version>/<name>.lua`.
2. Add a test here that runs workers with the old scripts beside workers with the new ones, as `test_increments` does.
3. On release, add `released/<new version>.json`: `python -m tests.crossproc.test_rolling_deploy`.
"""

from __future__ import annotations

import json
from pathlib import Path

import aiolock
from aiolock.scripts.lock import SCRIPTS

RELEASED = Path(__file__).parent / "released"


def current() -> dict[str, str]:
    return {script.name: script.sha for script in SCRIPTS}


def test_released_scripts_do_not_change_unnoticed() -> None:
    frozen = json.loads((RELEASED / f"{aiolock.__version__}.json").read_text())
    assert current() == frozen, f"a released script changed: read {Path(__file__).name}"


if __name__ == "__main__":
    RELEASED.mkdir(exist_ok=True)
    (RELEASED / f"{aiolock.__version__}.json").write_text(json.dumps(current(), indent=2) + "\n")
