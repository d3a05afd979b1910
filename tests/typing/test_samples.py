"""What a type checker says of users' code: one sample file must pass, the others must fail at each marked line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).with_name("samples")
MARK = "# refused"


def mypy() -> list[tuple[str, int, str]]:
    pytest.importorskip("mypy", reason="of the group `lint`, which `make check` installs")
    command = ["-m", "mypy", "--strict", "--output=json", "--config-file=", str(SAMPLES)]
    found = [json.loads(line) for line in run(command).splitlines()]
    return [(Path(one["file"]).name, one["line"], one["message"]) for one in found if one["severity"] == "error"]


def pyright() -> list[tuple[str, int, str]]:
    pytest.importorskip("pyright", reason="of the group `lint`, which `make check` installs")
    command = ["-m", "pyright", f"--project={SAMPLES}", f"--pythonpath={sys.executable}", "--outputjson"]
    found = json.loads(run(command))["generalDiagnostics"]
    return [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"])
        for one in found
        if one["severity"] == "error"
    ]


def run(command: list[str]) -> str:
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_sample_code(checker: object) -> None:
    """Every line of `accepted.py` passes; in the other two all marked lines fail, and no others."""
    assert callable(checker)
    found = checker()
    marked = {
        (sample, number)
        for sample in ("refused.py", "forgotten.py")
        for number, line in enumerate((SAMPLES / sample).read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith(MARK)
    }
    assert len(marked) > 20
    assert {(name, line) for name, line, _ in found} == marked
