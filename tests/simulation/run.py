"""Runs a plan, and says what came of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .history import History
from .plan import Plan
from .scene import Scene
from .seams import owned
from .world import Taken, Violation

COLLECT = 50
"""Runs after which garbage is collected: never in the middle of one, where it would depend on what ran before."""
_runs = 0


class Result(NamedTuple):
    """What came of a run.

    Attributes:
        violation: what must not have happened; None for nothing.
        history: everything that happened.
        entries: how many bodies began.
        steps: all that it took.
    """

    violation: Violation | None
    history: History
    entries: int
    steps: list[Taken]


def run(plan: Plan) -> Result:
    """Run a plan; the same plan gives the same history."""
    with _no_garbage():
        scene = Scene(plan)
        violation: Violation | None = None
        with owned(scene.world):
            try:
                scene.run()
            except Violation as found:
                violation = found
        return Result(violation, scene.world.history, scene.model.entries, scene.world.steps)


@contextmanager
def _no_garbage() -> Iterator[None]:
    global _runs
    _runs += 1
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
        if _runs % COLLECT == 0:
            gc.collect()
