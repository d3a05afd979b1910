"""How many examples a generated test runs: a few in `make test`, many in `make test-thorough`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("AIOLOCK_TEST_EXAMPLES", "1"))


def examples(few: int) -> settings:
    """Run this many examples, times `AIOLOCK_TEST_EXAMPLES`. That a machine is slow is no failure."""
    return settings(max_examples=few * TIMES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
