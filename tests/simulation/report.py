"""What is told of a plan that fails: its seed, the smallest plan that still fails, and that one's history."""

from __future__ import annotations

import time
from collections.abc import Callable

from .drawing import draw
from .plan import Plan
from .run import Result, run
from .shrink import shrink

PATIENCE = 30.0
"""Seconds in which a plan is made smaller."""


def explain(seed: int | str, result: Result, patience: float = PATIENCE) -> str:
    """Return all that one needs to find the cause."""
    plan = shrink(draw(seed), _fails_like(result, patience))
    small = run(plan)
    return (
        f"\nseed {seed}: {result.violation}\n\nThe smallest plan found:\n{plan}\n\n{small.history}\n\n"
        f"{small.violation}\n\nRun it again: make simulate ARGS='--only {seed}'"
    )


def followers(pairs: set[tuple[str, str]]) -> str:
    """Return what came right after what, a line for each kind of event."""
    after: dict[str, list[str]] = {}
    for first, second in sorted(pairs):
        after.setdefault(first, []).append(second)
    return "\n".join(f"  {first}: {', '.join(seconds)}" for first, seconds in after.items())


def _fails_like(result: Result, patience: float) -> Callable[[Plan], bool]:
    """Whether a plan fails in the same way: an error in the simulation itself must not take the place of a find."""
    until, wanted = time.monotonic() + patience, kind_of(str(result.violation))

    def fails(plan: Plan) -> bool:
        if time.monotonic() > until:
            return False
        violation = run(plan).violation
        return violation is not None and kind_of(str(violation)) == wanted

    return fails


def kind_of(violation: str) -> str:
    """Return the words of a violation that do not depend on the plan."""
    first = violation.partition("\n")[0]
    return " ".join(word for word in first.split() if word.isalpha() and len(word) > 2)[:40]
