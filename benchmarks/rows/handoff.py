"""Row D: what each of many tasks in several processes sees of one lock, beside a bare BLPOP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from ..contest import BARE, FAIR, OURS, PROCESSES, Team, in_turns
from ..crew import crew
from ..crowd import Crowd
from ..figure import Figure, Findings, Series, percentile, tail
from ..peers.aiolock import offered
from ..stage import Stage
from .growth import judge

PATIENT = "benchmarks.peers.aiolock:Patient"
BLPOP = "bare BLPOP"
Bounds = Mapping[str, tuple[float, float | None]]
"""Targets: must and aim of "hand-off", "wait", "evenness", "rate"."""
MUSTS: dict[str, Bounds] = {
    "lock": {"hand-off": (1.4, 1.1), "wait": (1.5, 1.0), "evenness": (0.8, None), "rate": (1.0, 1.05)},
    "fair_lock": {"rate": (0.9, None)},
}
DRAWN = {"lock": "aiolock", "fair_lock": "aiolock fair_lock", BLPOP: BLPOP}
"""Their names in the plots, beside other libraries."""


async def across_processes(**given: object) -> dict[str, object]:
    """The plain lock and the fair one."""
    stage = Stage(**given)  # type: ignore[arg-type]
    seen = _contest(stage, {"lock": OURS, "fair_lock": FAIR})
    found = Findings()
    for label, crowds in seen.items():
        if label != BLPOP:
            found.figures += against(seen[BLPOP], crowds, prefix(label), MUSTS[label])
        found.figures += measured(crowds, prefix(label))
        found.series += lines(DRAWN[label], crowds)
    return found.as_json()


async def other_primitives(**given: object) -> dict[str, object]:
    """The other primitives; readers exclude no one, so they have no hand-off."""
    stage = Stage(**given)  # type: ignore[arg-type]
    kinds = {label: kind for label, kind in offered().items() if kind.permits and label != "fair_lock"}
    seen = _contest(
        stage,
        {label: f"{kind.__module__}:{kind.__name__}" for label, kind in kinds.items()},
        {label: kind.permits for label, kind in kinds.items()},
    )
    found = Findings()
    for label in kinds:
        found.figures += against(seen[BLPOP], seen[label], prefix(label), {})
        found.figures += measured(seen[label], prefix(label))
    return found.as_json()


async def growing(**given: object) -> dict[str, object]:
    """Part of row G: with more and more waiters, spread over the processes."""
    stage = Stage(**given)  # type: ignore[arg-type]
    points = []
    with crew(PROCESSES, stage.python, stage.loop) as workers:
        for number in stage.scale.growth:
            if number < 2 * PROCESSES:
                continue
            seen = Team.even(workers, PATIENT, stage.url, number // PROCESSES).contend(stage.scale.handoffs)
            points.append((float(number), median(seen.handoffs) * 1e6))
    found = Findings()
    judge(found, f"hand-off p50 between {PROCESSES} processes, n waiters", "waiters", points)
    return found.as_json()


def _contest(
    stage: Stage, adapters: Mapping[str, str], permits: Mapping[str, int] | None = None
) -> dict[str, list[Crowd]]:
    with crew(PROCESSES, stage.python, stage.loop) as workers:
        teams = {
            label: Team.even(workers, adapter, stage.url, permits=(permits or {}).get(label, 1))
            for label, adapter in {BLPOP: BARE, **adapters}.items()
        }
        return in_turns(teams, stage.scale.handoffs, stage.scale.handoff_rounds)


def prefix(label: str) -> str:
    """The prefix of all figures but those of the plain lock."""
    return "" if label == "lock" else f"{label}: "


def against(bare: Sequence[Crowd], crowds: Sequence[Crowd], prefix: str, bounds: Bounds) -> list[Figure]:
    """What is judged: each round against what BLPOP did in the same round."""

    def figure(key: str, what: str, samples: Sequence[float], note: str = "", at_least: bool = False) -> Figure:
        must, aim = bounds.get(key, (None, None))
        return Figure.median("D", prefix + what, samples, "×", must, aim, at_least, note)

    pairs = list(zip(crowds, bare, strict=True))
    halves = [(median(one.handoffs), median(other.handoffs)) for one, other in pairs if one.handoffs]
    found = []
    if halves:
        note = f"{shares(crowds)}; BLPOP: {shares(bare)}"
        found.append(figure("hand-off", "hand-off p50 against bare BLPOP", [one / two for one, two in halves], note))
    waits = [percentile(one.waits, 0.99) / percentile(other.waits, 0.99) for one, other in pairs]
    rates = [one.rate / other.rate for one, other in pairs]
    return [
        *found,
        figure("wait", "wait p99 of a task against bare BLPOP", waits),
        even(crowds, prefix, bounds),
        figure("rate", "entries/s of all against bare BLPOP", rates, at_least=True),
    ]


def even(crowds: Sequence[Crowd], prefix: str, bounds: Bounds) -> Figure:
    """How evenly the tasks share the entries."""
    must, aim = bounds.get("evenness", (None, None))
    rounds = ", ".join(f"{min(crowd.entries)} / {max(crowd.entries)}" for crowd in crowds)
    what = f"{prefix}entries of the {len(crowds[0].entries)} tasks: least against most"
    evenness = [crowd.evenness for crowd in crowds]
    return Figure.median("D", what, evenness, "×", must, aim, note=f"by round: {rounds}")


def measured(crowds: Sequence[Crowd], prefix: str) -> list[Figure]:
    """What is only reported: how long a task waits, how much all of them get, and the hand-off with its share of the
    entries.
    """
    found = [
        Figure.median("D", f"{prefix}wait p{at:.0f} of a task", waits, "ms")
        for at in (50, 99)
        for waits in [[percentile(crowd.waits, at / 100) * 1e3 for crowd in crowds]]
    ]
    found.append(Figure("D", f"{prefix}longest wait", max(max(crowd.waits) for crowd in crowds) * 1e3, "ms"))
    found.append(Figure.median("D", f"{prefix}entries/s of all", [crowd.rate for crowd in crowds], "1/s"))
    times = [value * 1e3 for crowd in crowds for value in crowd.handoffs]
    if times:
        found += [
            Figure("D", f"{prefix}hand-off p{at:.0f}", percentile(times, at / 100), "ms", note=shares(crowds))
            for at in (50, 99)
        ]
    return found


def shares(crowds: Sequence[Crowd]) -> str:
    """The number of hand-offs between processes, and their share of the entries."""
    return f"{sum(len(crowd.handoffs) for crowd in crowds)} hand-offs, {_share(crowds)}"


def _share(crowds: Sequence[Crowd]) -> str:
    return f"{median(crowd.share for crowd in crowds) * 100:.0f} % of entries"


def lines(label: str, crowds: Sequence[Crowd]) -> list[Series]:
    """A line for each plot between processes."""
    waits = [wait * 1e3 for crowd in crowds for wait in crowd.waits]
    times = [time * 1e3 for crowd in crowds for time in crowd.handoffs]
    return [
        Series("wait between processes", label, tail(waits)),
        Series("hand-off between processes", label, tail(times), _share(crowds)),
    ]
