"""Runs plans until stopped: `make simulate ARGS='--seconds 60 --seed 7'`."""

from __future__ import annotations

import argparse
import sys
import time

from .coverage import Coverage
from .drawing import draw
from .every.__main__ import main as every
from .history import History
from .report import explain, followers
from .run import run

IN_ROWS = 5
"""Of this many plans, one is in a database."""
SAMPLE = 20
"""Of this many plans, one is watched line by line, which is slow."""


def main() -> int:
    options = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    options.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long; default: never")
    options.add_argument("--seed", type=int, default=0, help="the first seed (default: %(default)s)")
    options.add_argument("--count", type=int, default=sys.maxsize, help="how many seeds; default: no limit")
    options.add_argument("--only", metavar="SEED", help="show the plan and the history of one seed")
    options.add_argument("--all", action="store_true", help="exhaust small scenes; `--all --help` has its options")
    if "--all" in sys.argv:
        return every([one for one in sys.argv[1:] if one != "--all"])
    given = options.parse_args()
    if given.only is not None:
        return _show(given.only)
    pairs: set[tuple[str, str]] = set()
    coverage = Coverage()
    began, told, plans, entries, events = time.monotonic(), time.monotonic(), 0, 0, 0
    failed: list[int | str] = []
    spent = time.process_time()
    try:
        while plans < given.count and time.monotonic() - began < given.seconds:
            number = given.seed + plans
            seed = number if plans % IN_ROWS else f"rows:{number}"
            with coverage.watching(plans % SAMPLE == 0):
                result = run(draw(seed))
            plans, entries, events = plans + 1, entries + result.entries, events + len(result.history.events)
            pairs |= result.history.pairs
            if result.violation is not None:
                failed.append(seed)
                print(explain(seed, result), flush=True)
            if time.monotonic() - told > 10:
                told = time.monotonic()
                print(_rate(plans, time.process_time() - spent, entries, events), flush=True)
    except KeyboardInterrupt:
        print()
    print(_rate(plans, time.process_time() - spent, entries, events))
    kinds = {kind for pair in pairs for kind in pair}
    print(f"{len(kinds)} kinds of events, {len(pairs)} pairs of them one after the other:")
    print(followers(pairs))
    print(coverage.report())
    print(f"broken promises: {len(failed)}{f', seeds {failed}' if failed else ''}")
    return 1 if failed else 0


def _rate(plans: int, seconds: float, entries: int, events: int) -> str:
    return (
        f"{plans} plans in {seconds:.0f} s of one core: {60 * plans / max(seconds, 1e-9):.0f} a minute, "
        f"{entries} bodies, {events} events"
    )


def _show(seed: str) -> int:
    plan = draw(int(seed) if seed.isdecimal() else seed)
    result = run(plan)
    history: History = result.history
    print(f"{plan}\n\n{history}\n\n{result.violation or 'no promise broken'}")
    return 0 if result.violation is None else 1


if __name__ == "__main__":
    sys.exit(main())
