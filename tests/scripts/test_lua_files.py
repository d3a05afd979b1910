"""House rules of Lua files."""

from __future__ import annotations

from pathlib import Path

import pytest

import aiolock.scripts
from aiolock.scripts import condition, guard, latch, lock, multi, once, outcome, queue
from tests.support import redisson_wire

PACKAGE = Path(aiolock.scripts.__file__).parent
FILES = sorted(PACKAGE.rglob("*.lua"))
PRELUDES = {
    "lock": {
        "clock",
        "version",
        "acquire_own",
        "acquire_free",
        "own",
        "grant",
        "transfer_local",
        "transfer_pass",
        "release_free",
        "release_pass",
        "renew_one",
        *lock.JOIN,
    },
    "multi": {"acquire_free", "read", "take", "finish", "worse"},
    "condition": {"line", "wake"},
    "queue": {part for part in queue.ASK if "/" not in part},
    "guard": {"names", "holders"},
    "once": {"run"},
    "redisson": {"grant", "now", "line"},
    "scripts": {"sharded", "replicated"},
}
"""What goes in front of scripts: it need not answer by itself."""
BODIES = {"guard": {"commands"}}
"""What goes into scripts, as a user's own Lua does."""
names = [file.relative_to(PACKAGE).with_suffix("").as_posix() for file in FILES]


def test_there_are_scripts() -> None:
    assert {file.stem for file in FILES} >= {"acquire", "release", "transfer", "renew", "force_release", "info"}


@pytest.mark.parametrize(
    "family",
    [lock, multi, queue, latch, guard, condition, once, outcome, redisson_wire],
    ids=lambda family: family.__name__,
)
def test_every_file_is_a_script_or_goes_in_front_of_one(family: object) -> None:
    folder = Path(str(family.__file__)).parent  # type: ignore[attr-defined]
    files = {file.stem for file in FILES if file.parent == folder}
    scripts = {script.name for script in family.SCRIPTS}  # type: ignore[attr-defined]
    assert files == scripts | PRELUDES.get(folder.name, set()) | BODIES.get(folder.name, set())


@pytest.mark.parametrize("file", FILES, ids=names)
def test_opens_with_its_contract(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    header = []
    for line in lines:
        if not line.startswith("--"):
            break
        header.append(line)
    body = "\n".join(lines[len(header) :])
    assert len(lines) <= 40
    assert header[0].startswith(f"-- {file.stem}: ")
    assert any(line.startswith("-- If a command is denied") for line in header)
    if file.stem in PRELUDES.get(file.parent.name, set()):
        assert "return" not in [line.split(" ")[0] for line in body.splitlines()], "a prelude ends no script"
        return
    keys = any(word in body for word in ("KEYS", "open(", "read_state(", "read(", "keep(", "told(", "recall("))
    for word, used in (("KEYS", keys), ("ARGV", "ARGV" in body), ("returns", True)):
        assert used == any(line.startswith(f"-- {word} ") for line in header), word
