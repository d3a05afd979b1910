"""Which faults there are, and before which steps each of them is another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..plan import Fault, Plan
from ..world import Taken

LATE = 0.0025
"""Seconds by which a delivery or a turn is late: more than one way takes, less than two."""
ALL_CHUNKS = 9
"""More chunks than there ever are on their way."""
APART = 0.002
"""Seconds after a step in which no other fault of the server differs from one at the next delivery."""


def all_kinds(plan: Plan) -> list[Fault]:
    """Return every fault of a scene, without its moment."""
    ttl, tasks = plan.ttl, range(len(plan.workers))
    found = _of_network(plan)
    for target in range(plan.processes):
        found += [Fault("hold", 0.0, target, 0.2, 0), Fault("hold", 0.0, target, 0.2, 1)]
        found += [Fault("hold", 0.0, target, 0.5, 1), Fault("hold", 0.0, target, 1.5 * ttl, 2)]
        found += [Fault("die", 0.0, target, n=0), Fault("die", 0.0, target, n=1)]
        found += [Fault("stall", 0.0, target, 0.2), Fault("stall", 0.0, target, 1.5 * ttl)]
    found += _cancels(plan) + [Fault("cancel", 0.0, 0, 0.001, 2 * n + 1) for n in tasks]
    found += [Fault("restart", 0.0, 0, 0.05), Fault("restart", 0.0, 0, 0.7), Fault("restart_empty", 0.0, 0, 0.05)]
    found += [Fault("flush", 0.0, 0), *([Fault("forget_scripts", 0.0, 0)] if plan.store == "redis" else [])]
    found += [Fault("busy", 0.0, 0, 0.2), Fault("busy", 0.0, 0, 1.5 * ttl)]
    found += [Fault("refuse", 0.0, 0, 0.2, n) for n in range(3)]
    return [*found, Fault("jump", 0.0, 0, 0.5), Fault("jump", 0.0, 0, 2 * ttl)]


def doubts(plan: Plan) -> list[Fault]:
    """Return those that make a client doubt, or give up: for pairs."""
    stalls = [Fault("stall", 0.0, target, 1.5 * plan.ttl) for target in range(plan.processes)]
    return _of_network(plan) + stalls + _cancels(plan)


def cuts_and_cancels(plan: Plan) -> list[Fault]:
    """Return the most frequent ones."""
    return _of_network(plan) + _cancels(plan)


def delays(plan: Plan) -> list[Fault]:
    """Return what is no fault, but another order."""
    kinds = ("late_up", "late_down", "late_turn")
    return [Fault(what, 0.0, target, LATE) for target in range(plan.processes) for what in kinds]


def _of_network(plan: Plan) -> list[Fault]:
    found = []
    for target in range(plan.processes):
        found += [Fault("sever", 0.0, target), Fault("sever", 0.0, target, 0.4, ALL_CHUNKS)]
        found += [Fault("lose_reply", 0.0, target)]
    return found


def _cancels(plan: Plan) -> list[Fault]:
    return [Fault("cancel", 0.0, 0, 0.0, 2 * n) for n in range(len(plan.workers))]


def with_one_more(plan: Plan, faults: list[Fault], steps: list[Taken], start: int = 0) -> Iterator[Plan]:
    """Yield the plan with each of these faults before each step from `start` on.

    Args:
        plan: it may have faults already.
        faults: without their moments.
        steps: of the run without the new one.
        start: the first step.
    """
    for number in range(start, len(steps)):
        for fault in faults:
            if _differs(fault, plan, steps, number):
                yield replace(plan, faults=(*plan.faults, replace(fault, at=("step", number))))


def _differs(fault: Fault, plan: Plan, steps: list[Taken], number: int) -> bool:
    """Whether the fault is another one here than before the step before."""
    now, kind, process = steps[number]
    if fault.what in ("late_up", "late_down", "late_turn"):
        wanted = {"late_up": ("up", "connect"), "late_down": ("down",), "late_turn": ("turn",)}[fault.what]
        return kind in wanted and process == fault.target
    if fault.what in ("flush", "forget_scripts", "jump", "refuse"):  # only the server sees them
        return kind == "up" or (number > 0 and now - steps[number - 1][0] > APART)
    goes_on = kind == "turn" and number > 0 and steps[number - 1] == steps[number]
    if not goes_on:
        return True
    if fault.what == "cancel":
        return plan.workers[fault.n // 2 % len(plan.workers)].process == process
    if fault.what in ("restart", "restart_empty"):
        return True
    return fault.what != "busy" and fault.target == process
