"""Old and new processes share one server during a deployment: their scripts must understand each other's keys.

`released/<version>.json` lists the hash of each script as it was released. If you must change a script:

1. Copy the released one, from the version's tag, to `released/<version>/<name>.lua`: with all that goes in front of it,
   so that it has that hash.
2. `test_both_versions_share_a_name` runs workers with the old scripts beside workers with the new ones. Add a test of
   what else has changed.
3. On release, add `released/<new version>.json`: `python -m tests.crossproc.test_rolling_deploy`.
"""

from __future__ import annotations

import hashlib
import json

import pytest

import aiolock
from aiolock.scripts.lock import SCRIPTS
from tests.support import locks, redis_cli

from .conftest import Crew
from .released_worker import RELEASED, VERSION

LATEST = max((path.stem for path in RELEASED.glob("*.json")), key=lambda version: [*map(int, version.split("."))])
FROZEN = RELEASED / f"{LATEST}.json"
COPIES = {path.stem: path for path in (RELEASED / LATEST).glob("*.lua")}
TTL = 1.0


def current() -> dict[str, str]:
    return {script.name: script.sha for script in SCRIPTS}


def test_released_scripts_do_not_change_unnoticed() -> None:
    frozen, now = json.loads(FROZEN.read_text()), current()
    assert now.keys() >= frozen.keys()  # no process of that version runs a new one
    changed = {name for name in frozen if now[name] != frozen[name]}
    assert changed == COPIES.keys(), f"a released script changed: read {__name__}"
    for name, path in COPIES.items():
        assert hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest() == frozen[name], path


@pytest.mark.skipif(not COPIES, reason="no script has changed since the release")
async def test_both_versions_share_a_name(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of both versions enter the lock and the fair lock of a name: nothing overlaps, and all get in."""
    new = [crew.start("history", 4, TTL, "lock", "fair") for _ in range(2)]
    monkeypatch.setenv(VERSION, LATEST)
    earlier = Crew(crew.url, crew.folder, "tests.crossproc.released_worker")
    try:
        old = [earlier.start("history", 4, TTL, "lock", "fair") for _ in range(2)]
        await crew.until(lambda: len(crew.events("ready")) == 4)
        for worker in (*new, *old):
            await crew.until(lambda pid=worker.pid: sum(e["pid"] == pid for e in crew.events("granted")) > 30)  # type: ignore[misc]
        (crew.folder / "enough").touch()
        await crew.done(*new, *old)
    finally:
        earlier.close()
    assert crew.judge().counts()["grants"] > 120
    with redis_cli.client(crew.url) as link:
        assert locks.nothing_held(link)


if __name__ == "__main__":
    (RELEASED / f"{aiolock.__version__}.json").write_text(json.dumps(current(), indent=2) + "\n")
