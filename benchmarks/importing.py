"""What imports cost: user CPU of fresh interpreters, in turns, beside the libraries that aiolock stands on.

`python -m benchmarks.importing` prints the median, and the median of the ratios to `import redis.asyncio, anyio` of the
same turn. Bytecode is written first.
"""

from __future__ import annotations

import compileall
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import aiolock

TURNS = 20
FLOOR = "import redis.asyncio, anyio"
PROGRAMS = (
    "pass",
    "import asyncio",
    FLOOR,
    "import aiolock",
    "from aiolock import LockManager",
    "from aiolock.sync import LockManager",
    "from aiolock import LockManager; LockManager('sqlite:///locks.db')",
    "from aiolock import LockManager; LockManager('redis://localhost')",
)


def cpu(program: str, folder: str) -> float:
    """User CPU seconds of an interpreter that runs a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    environment = {"PYTHONPATH": str(Path(aiolock.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=folder, env=environment)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main() -> None:
    """Measure, and print a table."""
    compileall.compile_dir(Path(aiolock.__file__).parent, quiet=1)
    turns: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(TURNS):
            turns.append({program: cpu(program, folder) for program in PROGRAMS})
    print("| program | user CPU, ms | ratio |\n| --- | ---: | ---: |")
    for program in PROGRAMS:
        median = statistics.median(turn[program] for turn in turns)
        ratio = statistics.median(turn[program] / turn[FLOOR] for turn in turns)
        print(f"| `{program}` | {median * 1000:.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
