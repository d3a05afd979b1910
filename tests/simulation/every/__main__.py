"""Exhausts the scenes: `make simulate ARGS=--all`. If you stop it, it goes on from there when you start it again."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.pool import Pool
from pathlib import Path

import aiolock
from benchmarks.environment import head

from ..plan import Plan
from ..report import kind_of
from .judge import judge
from .log import Log
from .scenes import SCENES
from .search import KINDS, Outcome, Search, explore, units

OFTEN = 10.0
"""Seconds between two lines about how far it is."""
DEEP = ("wait", "local", "giving_up")
"""Scenes of which two small delays are exhausted, too."""
SOURCES = (Path(aiolock.__file__).parent, Path(__file__).parents[1])


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="make simulate ARGS='--all …'", description=__doc__)
    options.add_argument("--kind", choices=KINDS, help="only this kind; default: all but `frequent`, one after another")
    options.add_argument("--scene", choices=SCENES, help="only this scene; default: all")
    options.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long; default: at the end")
    options.add_argument("--cores", type=int, default=multiprocessing.cpu_count(), help="default: %(default)s")
    options.add_argument("--anew", action="store_true", help="forget what earlier runs have done")
    given = options.parse_args(arguments)
    until = time.monotonic() + 60 * given.minutes
    log = Log(Path("build/every.jsonl"), tree(), anew=given.anew)
    searches = [
        search for search in order() if given.kind in (None, search.kind) and given.scene in (None, search.scene)
    ] or [Search(given.scene, given.kind)]
    with multiprocessing.Pool(given.cores) as pool:
        try:
            for search in searches:
                if time.monotonic() < until:
                    exhaust(search, pool, log, until)
        except KeyboardInterrupt:
            print()
        pool.terminate()
    kinds = log.summary()
    for kind, sums in kinds.items():
        done = f"{sums['scenes']} of {sums['begun']} scenes exhausted, {sums['runs']:,} runs"
        print(f"{kind}: {done}, {sums['broken']} broken promises")
    report = {**head("make simulate ARGS=--all"), "kinds": kinds}
    Path("build/every.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if log.bad else 0


def order() -> list[Search]:
    """Return what there is to do, the shallow first; pairs of `wait` before all other pairs."""
    plain = [Search(scene, kind) for kind in ("singles", "preemption") for scene in SCENES]
    return (
        plain
        + [Search(scene, "preemptions") for scene in DEEP]
        + [Search(scene, "pairs") for scene in sorted(SCENES, key=lambda scene: scene != "wait")]
    )


def tree() -> str:
    """Return what the sources of the library and of the simulation are, as a digest."""
    digest = hashlib.sha256()
    for path in sorted(path for top in SOURCES for ending in ("*.py", "*.lua") for path in top.rglob(ending)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def exhaust(search: Search, pool: Pool, log: Log, until: float) -> None:
    """Run what is left of a search.

    Args:
        search: what.
        pool: where it runs.
        log: what has been done, and is done.
        until: when it stops, by the monotonic clock.
    """

    def shape(plans: list[Plan]) -> Iterable[str]:
        return pool.imap(_shape, plans, 16)

    todo = units(search, shape)
    left = [number for number in range(len(todo)) if not log.has(search, number)]
    log.begins(search, len(todo))
    began, told, known = time.monotonic(), time.monotonic(), set[str]()
    results = pool.imap_unordered(_explore, _in_time(search, todo, left, until))
    for done, (number, outcome) in enumerate(results, 1):
        log.add(search, number, outcome)
        for why, plan in outcome.told:
            if kind_of(why) not in known:
                known.add(kind_of(why))
                print(f"\n{search}: {why}\n{plan}\n", flush=True)
        if time.monotonic() - told > OFTEN:
            told = time.monotonic()
            minutes = (told - began) / done * (len(left) - done) / 60
            print(f"{log.line(search)}, {minutes:.0f} minutes left", flush=True)
    log.spent(search, time.monotonic() - began)
    print(log.line(search), flush=True)


def _in_time(
    search: Search, todo: list[tuple[Plan, ...]], left: list[int], until: float
) -> Iterator[tuple[str, int, tuple[Plan, ...]]]:
    for number in itertools.takewhile(lambda _: time.monotonic() < until, left):
        yield search.kind, number, todo[number]


def _explore(given: tuple[str, int, tuple[Plan, ...]]) -> tuple[int, Outcome]:
    kind, number, unit = given
    return number, explore(kind, unit)


def _shape(plan: Plan) -> str:
    return judge(plan).shape


if __name__ == "__main__":
    sys.exit(main())
