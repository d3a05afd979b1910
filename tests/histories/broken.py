"""Break the library on purpose, and see how soon histories find it: `python -m tests.histories.broken [NAME …]`.

Exit code: 0 if each was found, 1 if one was not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from .mutations import CASES
from .plan import draw
from .round import Outcome, run
from .worker import BROKEN


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.histories.broken", description=__doc__)
    options.add_argument("names", nargs="*", default=list(CASES), metavar="NAME", help=", ".join(CASES))
    options.add_argument("--rounds", type=int, default=3, help="give up after so many (default: %(default)s)")
    options.add_argument("--seconds", type=float, default=15.0, help="of faults in a round (default: %(default)s)")
    given = options.parse_args()
    missed = [name for name in given.names if not _found(name, given.rounds, given.seconds)]
    if missed:
        print(f"not found: {', '.join(missed)}")
    return 1 if missed else 0


def _found(name: str, rounds: int, seconds: float) -> bool:
    os.environ[BROKEN] = name
    spent, operations = 0.0, 0
    for number in range(1, rounds + 1):
        outcome = _round(name, number, seconds)
        spent, operations = spent + outcome.seconds, operations + outcome.counts.get("operations", 0)
        found = [words for words in outcome.violations if not words.startswith("round:")]  # servers that do not start
        if found:
            first = found[0].splitlines()
            print(
                f"{name}: found in round {number}, {spent:.0f} s, {operations} operations: {first[0][:150]}", flush=True
            )
            return True
    print(f"{name}: not found in {rounds} rounds, {spent:.0f} s, {operations} operations", flush=True)
    return False


def _round(name: str, number: int, seconds: float) -> Outcome:
    case = CASES[name]
    plan = draw(f"{name}:{number}", seconds, case.place)
    plan = replace(plan, options={**plan.options, "min_replicas": None, **case.options})
    options = {key: value for key, value in plan.options.items() if value is not None}
    plan = replace(plan, options=options, uses=case.uses or plan.uses)
    with tempfile.TemporaryDirectory(prefix="aiolock-broken-") as folder:
        return asyncio.run(run(plan, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
