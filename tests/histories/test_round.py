"""A few seconds of what `make chaos` does: real servers, processes and faults; and what a plan is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.sentinels import start_sentinels
from tests.support.stepped_clock import POSSIBLE

from .kinds import Kind
from .places import PLACES, Place
from .places.sentinel import Watched
from .plan import Fault, Plan, draw
from .round import run
from .uses import ALL

FAULTS = (
    (Fault("network", "cut", 3, 0.2, 0.1),),
    (Fault("crew", "kill", 1, 0.0, 0.1), Fault("place", "restart", 0, 0.2, 0.0)),
    (Fault("crew", "cancel", 5, 0.0, 0.1),),
)


@pytest.mark.slow
async def test_a_short_round(tmp_path: Path) -> None:
    """Every use, on one server that is killed and finds its data again."""
    options = {"ttl": 3.0, "recheck": 1.0, "request_timeout": 1.5, "liveness": 1.0}
    outcome = await run(Plan("short", "server", 2, options, ALL, FAULTS), tmp_path)
    assert outcome.violations == []
    assert outcome.counts["faults"] == {"cut": 1, "kill": 1, "restart": 1, "cancel": 1}
    assert outcome.counts["grants"] > 50
    assert {use: len(times) for use, times in outcome.recoveries.items()} == dict.fromkeys(ALL, 1 + len(FAULTS))


@pytest.mark.slow
@pytest.mark.skipif(not POSSIBLE, reason="it needs Linux and a C compiler")
async def test_a_round_with_steps_of_the_clock(tmp_path: Path) -> None:
    """Back, and far ahead, and to the right time each time. Fences rise all the same."""
    options = {"ttl": 3.0, "recheck": 1.0, "request_timeout": 1.5, "liveness": 1.0}
    faults = tuple((Fault("place", "step_clock", number, 0.3, 0.1),) for number in (1, 3))
    outcome = await run(Plan("steps", "server", 2, options, ALL, faults), tmp_path)
    assert outcome.violations == []
    assert outcome.unfinished == ""
    assert outcome.counts["faults"] == {"step_clock": 2}


def test_a_seed_draws_the_same_plan_again() -> None:
    plans = [draw(f"7:{number}", 45.0) for number in range(40)]
    assert plans == [draw(plan.seed, 45.0) for plan in plans]
    assert {plan.place for plan in plans} == set(PLACES)
    assert len(set(map(str, plans))) == len(plans)


@pytest.mark.parametrize("place", PLACES.values(), ids=list(PLACES))
def test_every_kind_of_fault_can_be_struck(place: type[Place]) -> None:
    for what, kind in place.kinds.items():
        assert isinstance(kind, Kind)
        assert callable(getattr(place, what))


async def test_a_short_freeze_is_short_in_a_long_step() -> None:
    """Otherwise Sentinels replace the master, and what was not replicated is lost without a fault that says so."""
    with start_sentinels(down_after=60.0, failover_timeout=60.0) as sentinels:
        async with Watched(sentinels).strike("freeze", 0, 0.1):
            link = sentinels.link(sentinels.master())
            assert await asyncio.to_thread(link.ping)  # it waits until the master continues
