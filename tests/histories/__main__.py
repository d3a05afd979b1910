"""Break real servers, networks and processes from seeded plans, and check what the processes saw.

Exit code: 0 if no promise was broken, 1 if one was, 2 if nothing could be run, 130 after Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import time
from pathlib import Path

from aiolock.testing.server import ServerError
from tests.support.folder import Folder

from .places import PLACES
from .plan import draw
from .report import Report, as_text
from .round import Outcome, run

ROUND = 40.0
"""Seconds that the faults of a round take, about."""
FOUND, UNABLE, INTERRUPTED = 1, 2, 130


def main() -> int:
    options = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    options.add_argument("--minutes", type=float, default=5.0, help="begin no round later than this (%(default)s)")
    options.add_argument("--seed", type=int, default=0, help="draws all rounds (default: %(default)s)")
    options.add_argument("--place", choices=list(PLACES), help="where; default: what each round's seed draws")
    options.add_argument("--only", metavar="SEED", help="one round: 7:12 is the twelfth of seed 7")
    options.add_argument("--report", type=Path, default=Path("build/chaos"), help="folder (default: %(default)s)")
    given = options.parse_args()
    folder: Path = given.report
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    report = Report(folder, " ".join(["make chaos", *sys.argv[1:]]), given.seed, given.minutes)
    until, number = time.monotonic() + 60 * given.minutes, 0
    code = 0
    try:
        while number == 0 or (given.only is None and time.monotonic() < until):
            number += 1
            outcome = _round(given.only or f"{given.seed}:{number}", given.place, folder)
            report.add(outcome)
            print(_line(outcome), flush=True)
    except KeyboardInterrupt:
        print()
        code = INTERRUPTED
    except ServerError as error:
        print(error, file=sys.stderr)
        return UNABLE
    print(as_text(report.as_json()), end="")
    return FOUND if report.violations else code


def _round(seed: str, place: str | None, folder: Path) -> Outcome:
    """Run one; its journal is kept if something was found."""
    plan = draw(seed, ROUND, place)
    with Folder() as own:
        outcome = asyncio.run(run(plan, own))
        if outcome.violations or outcome.unfinished:
            kept = folder / f"seed-{seed.replace(':', '-')}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(own, kept)
            (kept / "plan").write_text(f"{plan}\n")
            found = [*outcome.violations, *filter(None, [outcome.unfinished])]
            (kept / "violations").write_text("\n\n".join(found) + "\n")
    return outcome


def _line(outcome: Outcome) -> str:
    counts, plan = outcome.counts, outcome.plan
    found = f"{len(outcome.violations)} violations" if outcome.violations else "well"
    found += ", ended early" if outcome.unfinished else ""
    return (
        f"{plan.seed} {plan.place}: {counts.get('operations', 0)} operations, {sum(counts.get('faults', {}).values())} "
        f"faults, {outcome.seconds:.0f} s: {found}"
    )


if __name__ == "__main__":
    sys.exit(main())
