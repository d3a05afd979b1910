"""The multi lock's contract where its names lie in several places: it holds, but for what one script would do."""

from __future__ import annotations

from typing import Any

import pytest

from aiolock import LockManager
from aiolock.backends.memory import MemoryBackend
from tests.support.scattered import Scattered
from tests.support.skipping import SkippingClock, skip_waits

from .places import MemoryPlace
from .test_multi_lock import *  # noqa: F403

del test_what_it_costs  # noqa: F821 - it counts what one server runs: tests/unit/test_stepwise.py does it for several


class SpreadPlace(MemoryPlace):
    """A store in this process, behind three connections, each for some of the names.

    A message arrives on all of them, as in a cluster.
    """

    def manager(self, **options: Any) -> LockManager:
        clock = SkippingClock()
        return LockManager(Scattered([MemoryBackend(self._store, clock) for _ in range(3)]), **options)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> SpreadPlace:
    skip_waits(request.getfixturevalue("_function_scoped_runner").get_loop())
    return SpreadPlace()
