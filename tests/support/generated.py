"""Generated tests: how many examples one runs, a few in `make test`, many in `make test-thorough`; and their steps."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

TIMES = int(os.environ.get("AIOLOCK_TEST_EXAMPLES", "1"))


def examples(few: int) -> settings:
    """Run this many examples, times `AIOLOCK_TEST_EXAMPLES`. That a machine is slow is no failure."""
    return settings(max_examples=few * TIMES, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Step(NamedTuple):
    """One thing that happens on each side: a request, or something to the keys."""

    kind: str
    facts: tuple[Any, ...] = ()


def step(kind: str, *facts: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    """Steps of this kind, with drawn facts."""
    return st.builds(Step, st.just(kind), st.tuples(*facts))
