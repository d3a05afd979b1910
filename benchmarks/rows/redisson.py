"""Row JV: who waits on Redisson's wire is told of a release, by a JVM and by a process of ours."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ..databases import Absent
from ..figure import Figure, Findings
from ..stage import Stage

if TYPE_CHECKING:
    from tests.redisson.peer import Peer

VERSION = "4.7.0"
TTL_MS = 30_000
KINDS = ("lock", "fair", "write")
WARM_UP = 20
"""Rounds until the JVMs have compiled what they run."""
SETTLED = 0.03
"""Seconds after which a waiter listens."""
BESIDE = "Redisson → Redisson"


async def wake_ups(**given: object) -> dict[str, object]:
    """From the begin of an unlock to the end of the lock that waited for it, each pair in turn."""
    stage = Stage(**given)  # type: ignore[arg-type]
    found, rounds = Findings(), WARM_UP + (20 if stage.quick else 100)
    with ExitStack() as stack:
        try:
            pairs = _pairs(stack, stage.url)
        except Absent as error:
            found.figures.append(Figure("JV", f"wake-ups, Redisson {VERSION}", None, "ms", note=str(error)))
            return found.as_json()
        for kind in KINDS:
            took: dict[str, list[float]] = defaultdict(list)
            for number in range(rounds):
                for title, (first, second) in pairs.items():
                    seconds = _wake_up(first, second, f"{kind}:bench")
                    if number >= WARM_UP:
                        took[title].append(1000 * seconds)
            for title, times in took.items():
                found.figures.append(Figure.median("JV", f"wake-up of a {kind}, {title}", times, "ms", at_least=False))
            beside = statistics.median(took.pop(BESIDE))
            for title, times in took.items():
                ratio = beside / statistics.median(times)
                found.figures.append(Figure("JV", f"{kind}, {title} against {BESIDE}", ratio, must=1.0))
    return found.as_json()


def _pairs(stack: ExitStack, url: str) -> dict[str, tuple[Peer, Peer]]:
    """Who unlocks, and who waits.

    Raises:
        Absent: there is no Java, or no Maven.
    """
    try:
        from _pytest.outcomes import Skipped

        from tests.redisson.peer import classpath, start_java, start_python
    except ImportError as error:
        raise Absent(f"not measured: no {error.name}, which the environment of the tests has") from error
    try:
        classpath(VERSION)
    except Skipped as skipped:
        raise Absent(f"not measured: {skipped.msg}") from skipped
    java = [stack.enter_context(start_java(VERSION, url, TTL_MS)) for _ in range(2)]
    python = [stack.enter_context(start_python(url, TTL_MS)) for _ in range(2)]
    return {
        BESIDE: (java[0], java[1]),
        "Redisson → aiolock": (java[0], python[0]),
        "aiolock → Redisson": (python[0], java[0]),
        "aiolock → aiolock": (python[0], python[1]),
    }


def _wake_up(first: Peer, second: Peer, what: str) -> float:
    first.do("t", "lock", what)
    waiting = second.ask("t", "lock", what)
    time.sleep(SETTLED)
    began = first.ask("t", "unlock", what).result(60.0).began
    ended = waiting.result(60.0).ended
    second.do("t", "unlock", what)
    return ended - began
