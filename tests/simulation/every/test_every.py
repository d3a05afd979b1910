"""Cuts, lost replies and cancellations at every step of the two smallest scenes in which tasks meet (`make test` has
one of them); in all scenes on Redis a small delay at every step. `make test-thorough` runs every fault of all scenes.
"""

from __future__ import annotations

import pytest

from .judge import judge
from .scenes import SCENES
from .search import Search, firsts

PARTS = 2
ON_REDIS = [name for name, plan in SCENES.items() if plan.store == "redis"]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scene", [pytest.param("wait", marks=pytest.mark.slow), "local"])
def test_no_cut_and_no_cancellation_breaks_a_promise(scene: str, part: int) -> None:
    _exhaust(Search(scene, "frequent"), part, PARTS)


@pytest.mark.slow
@pytest.mark.parametrize("scene", ON_REDIS)
def test_no_small_delay_breaks_a_promise(scene: str) -> None:
    _exhaust(Search(scene, "preemption"), 0, 1)


def _exhaust(search: Search, part: int, parts: int) -> None:
    plans = firsts(search)[part::parts]
    assert len(plans) > 30  # otherwise there was hardly anything to break
    for plan in plans:
        verdict = judge(plan)
        assert not verdict.why, f"{search}: {verdict.why}\n{plan}"
