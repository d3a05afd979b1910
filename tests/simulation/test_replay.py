"""A seed says everything: the same history, byte for byte, in any process."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys

import pytest

from .drawing import draw
from .plan import Fault, Plan, Step, Worker
from .process import Process
from .run import run
from .shrink import shrink
from .world import World

SEEDS = range(1000, 1008)
PROGRAM = """
import sys
from tests.simulation.drawing import draw
from tests.simulation.run import run
for seed in map(int, sys.argv[1:]):
    print(run(draw(seed)).history.digest)
"""


@pytest.mark.slow
def test_a_seed_replays_whatever_ran_before_it_and_whatever_the_hashes_are() -> None:
    here = [run(draw(seed)).history.digest for seed in SEEDS]
    for hashes, seeds in (("0", SEEDS), ("7", SEEDS[::-1])):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, seeds)],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        )
        told = done.stdout.split()
        assert told == [here[SEEDS.index(seed)] for seed in seeds]
    assert len(set(here)) == len(here)


def test_a_plan_is_python() -> None:
    plan = draw(1)
    names = {"Plan": Plan, "Worker": Worker, "Step": Step, "Fault": Fault}
    assert eval(str(plan), names) == plan


def test_a_plan_that_fails_is_made_smaller() -> None:
    def fails(plan: Plan) -> bool:
        steps = {step.how for worker in plan.workers for step in worker.steps}
        return "nest" in steps and any(fault.what == "cut" for fault in plan.faults)

    big = next(plan for plan in map(draw, range(100)) if fails(plan) and len(plan.workers) > 5)
    small = shrink(big, fails)
    assert [len(worker.steps) for worker in small.workers] == [1]
    assert [fault.what for fault in small.faults] == ["cut"]


def test_the_dead_send_nothing() -> None:
    """Not even the rest of what they were sending when they died: the server would read half a request."""
    workers = (
        Worker(1, 0.0, (Step("fair"), Step("fair", seconds=0.02))),
        Worker(3, 0.0, (Step("lock", "b"), Step("fair", "b", seconds=0.02), Step("lock", seconds=0.1))),
        Worker(0, 0.0, (Step("lock", seconds=3.0),)),
    )
    for number in range(40, 60):
        fault = Fault("die", ("sent", number), n=1)
        plan = Plan("dead", processes=4, workers=workers, faults=(fault,), ttl=6.0, latency=0.02, window=4096)
        assert run(plan).violation is None


def test_a_process_that_dies_leaves_nothing_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it waits to clean up; and nothing is said of that. Kept by _end in loop.py."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: said.append(unraisable.exc_value))
    process = Process(World("0"), Plan(), 0)
    ended: list[str] = []

    async def closes() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            try:
                await asyncio.sleep(1)
            finally:
                try:
                    await asyncio.sleep(1)
                finally:
                    ended.append("closes")

    async def main() -> None:
        await closes()

    with process.loop.running():
        task = process.loop.create_task(main())
    process.poke()
    process.world.run(process.world.now + 0.5, lambda: False)
    process.discard()
    assert ended == ["closes"]
    del task
    gc.collect()
    assert said == []
