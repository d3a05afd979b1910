"""Makes a plan that fails smaller: leaves out workers, steps and faults as long as it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from .plan import Fault, Plan, Step, Worker

TRIES = 3
"""How often a smaller plan may run with other noise before it counts as one that does not fail: whatever is left out
changes when everything else happens.
"""


def shrink(plan: Plan, fails: Callable[[Plan], bool], tries: int = TRIES) -> Plan:
    """Return the smallest plan found that still fails.

    Args:
        plan: it fails.
        fails: runs a plan.
        tries: how many kinds of noise each smaller plan gets.
    """
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(plan):
            found = next((one for one in _noises(candidate, tries) if fails(one)), None)
            if found is not None:
                plan, smaller = found, True
                break
    return plan


def _noises(plan: Plan, tries: int) -> Iterator[Plan]:
    yield plan
    for number in range(1, tries):
        yield replace(plan, noise=f"{plan.noise.partition('.')[0]}.{number}")


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with less in them, those that lack most first."""
    for workers in _without(plan.workers):
        yield replace(plan, workers=workers)
    for faults in _without(plan.faults):
        yield replace(plan, faults=faults)
    for index, worker in enumerate(plan.workers):
        for steps in _without(worker.steps):
            if steps:
                yield _with_worker(plan, index, replace(worker, steps=steps))
    for name, usual in (("spikes", 0.0), ("split", 0.0), ("drift", 0.0), ("margin", None), ("window", 1 << 16)):
        if getattr(plan, name) != usual:
            yield replace(plan, **{name: usual})
    for index, worker in enumerate(plan.workers):
        if worker.starts:
            yield _with_worker(plan, index, replace(worker, starts=0.0))
        for at, step in enumerate(worker.steps):
            for plain in _plainer(step):
                yield _with_worker(
                    plan, index, replace(worker, steps=(*worker.steps[:at], plain, *worker.steps[at + 1 :]))
                )


def _plainer(step: Step) -> Iterator[Step]:
    if step.how not in ("guard", "plain"):
        yield replace(step, how="guard")
    if step.timeout is not None and step.what != "wait":
        yield replace(step, timeout=None)
    if step.seconds > 0.1:
        yield replace(step, seconds=0.1)


def _with_worker(plan: Plan, index: int, worker: Worker) -> Plan:
    return replace(plan, workers=(*plan.workers[:index], worker, *plan.workers[index + 1 :]))


def _without(
    items: tuple[Worker, ...] | tuple[Fault, ...] | tuple[Step, ...],
) -> Iterator[tuple[Worker, ...] | tuple[Fault, ...] | tuple[Step, ...]]:
    """The items without a half, a quarter, … of them, down to single ones."""
    size = len(items) // 2
    while size:
        for start in range(0, len(items), size):
            yield items[:start] + items[start + size :]  # type: ignore[return-value]
        size //= 2
    if len(items) == 1:
        yield ()
