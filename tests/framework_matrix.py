"""Runs the tests and pages of `aiolock.contrib` beside the oldest and newest frameworks: `make test-frameworks`.

The suite's own environment has no arq, which wants an older redis-py than the newest. Each row here has it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.client_matrix import Row, environment
from tests.support import runs
from tests.support.runs import ROOT

PAGE = ROOT / "docs" / "reference" / "compatibility.md"
FRAMEWORKS = ["aiohttp", "apscheduler", "arq", "celery", "django", "fastapi", "litestar", "starlette", "taskiq"]
BESIDE_ARQ = "redis<6"
TESTS = ["tests/contrib", "tests/docs/test_blocks.py", "-k", "contrib or frameworks or workers"]


def rows() -> list[Row]:
    """The lowest version of each framework, and the newest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [line for name in FRAMEWORKS for line in project["optional-dependencies"][name]]
    redis = next(line for line in project["dependencies"] if line.startswith("redis>="))
    lowest = [line.partition(",")[0].replace(">=", "==") for line in (redis, *wanted)]
    return [Row("frameworks-lowest", lowest), Row("frameworks-newest", [BESIDE_ARQ])]


def versions(python: Path) -> list[str]:
    """What is installed of each framework."""
    ask = f"import importlib.metadata as m; print(*map(m.version, {FRAMEWORKS!r}))"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.split()


def main() -> int:
    """Run the rows that were asked for; 1 if a test failed, or was skipped."""
    parser = argparse.ArgumentParser(prog="make test-frameworks", description=__doc__)
    names = [row.name for row in rows()]
    parser.add_argument("--only", choices=names, nargs="+", default=names, help="rows to run")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    found, outcomes = [], []
    chosen = [row for row in rows() if row.name in options.only]
    for row in chosen:
        python = environment(row, ".[arq]")
        found.append(versions(python))
        print(f"{row.name}: " + ", ".join(map(" ".join, zip(FRAMEWORKS, found[-1], strict=True))), flush=True)
        outcomes.append(runs.run(python, TESTS))
    heads = ["framework", *(row.name.removeprefix("frameworks-") for row in chosen)]
    table = f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}\n"
    table += "".join(f"| {' | '.join(line)} |\n" for line in zip(FRAMEWORKS, *found, strict=True))
    table += f"| tests | {' | '.join(outcome.text for outcome in outcomes)} |\n"
    print(table)
    if options.write:
        runs.write(PAGE, "frameworks", table)
    skipped = [reason for outcome in outcomes for reason in outcome.skipped]
    print(*skipped, sep="\n")
    return bool(skipped) or not all(outcome.green for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main())
