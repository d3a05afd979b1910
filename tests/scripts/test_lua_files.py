"""House rules of Lua files."""

from __future__ import annotations

from pathlib import Path

import pytest

import aiolock.scripts

FILES = sorted(Path(aiolock.scripts.__file__).parent.rglob("*.lua"))


def test_there_are_scripts() -> None:
    assert {file.stem for file in FILES} >= {"acquire", "release", "transfer", "renew", "force_release", "info"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
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
    for word, used in (("KEYS", "KEYS" in body), ("ARGV", "ARGV" in body), ("returns", True), ("If a command", True)):
        assert used == any(line.startswith(f"-- {word} ") for line in header), word
