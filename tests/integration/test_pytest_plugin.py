"""The pytest plugin costs nothing if you run pytest for something else."""

from __future__ import annotations

from pathlib import Path

from tests.support import plugin_run

FOREIGN = """
import sys

def ours():
    return {name for name in sys.modules if name.partition(".")[0] in ("aiolock", "redis", "hiredis", "anyio")}

def test_that_has_nothing_to_do_with_locks():
    assert ours() == {"aiolock", "aiolock.testing", "aiolock.testing.pytest_plugin"}

def test_that_has(aiolock_memory):
    assert ours() > {"aiolock.testing", "aiolock.testing.memory", "aiolock.backends.memory"}
"""


def test_nothing_is_imported_before_a_test_asks_for_a_fixture(tmp_path: Path) -> None:
    """Guards the imports inside the fixtures, and those of `aiolock` and `aiolock.testing`."""
    (tmp_path / "test_foreign.py").write_text(FOREIGN, encoding="utf-8")
    done = plugin_run.pytest(tmp_path, "-q", "-p", "no:cacheprovider", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
