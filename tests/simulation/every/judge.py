"""One run, judged twice: by the models, and by the same scene without faults."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import NamedTuple

from ..plan import DELAYS, Plan
from ..run import run
from ..world import START, Taken

MILD = frozenset({"sever", "lose_reply", "hold", "busy", "forget_scripts", "refuse", *DELAYS})
"""What ends no lock by itself if it lasts for less than `SHORT` of the ttl."""
SHORT = 0.45
ALLOWED = 0.1
"""Seconds by which a mild fault may put off the end of all work, besides what it lasts; a ttl is far more."""
LOSSES = ("lost ", "NotOwned", "NotAcquired")


class Verdict(NamedTuple):
    """What is known of a run.

    Attributes:
        why: what must not have happened; "" for nothing.
        steps: those until all work was done; all of them, if the processes end then.
        shape: equal for runs in which the same things happened in the same order.
    """

    why: str
    steps: list[Taken]
    shape: str


_quiet: dict[Plan, float] = {}


def judge(plan: Plan) -> Verdict:
    """Run a plan of a scene, and judge it."""
    result = run(plan)
    events = result.history.events
    told = [(what, who, detail.split(" ")[:2][-1]) for _, what, who, detail in events]
    shape = hashlib.sha256(repr(told).encode()).hexdigest()[:12]
    why = str(result.violation or "") or _unlike_quiet(plan, events)
    last = _end(events) if plan.stays else float("inf")
    return Verdict(why, [step for step in result.steps if step[0] <= last], shape)


def _quiet_end(plan: Plan) -> float:
    """When the scene ends its work without faults."""
    bare = replace(plan, faults=())
    if bare not in _quiet:
        _quiet[bare] = _end(run(bare).history.events)
    return _quiet[bare]


def _unlike_quiet(plan: Plan, events: list[tuple[float, str, str, str]]) -> str:
    seconds = sum(fault.seconds for fault in plan.faults)
    kinds = {fault.what for fault in plan.faults}
    if not plan.faults or not kinds <= MILD | {"cancel"} or seconds >= SHORT * plan.ttl:
        return ""
    steps = [step for worker in plan.workers for step in worker.steps]
    takes_over = any(step.what in ("force", "close", "resume") or step.how == "block" for step in steps)
    if not takes_over and len(plan.faults) == 1:
        for _, what, who, detail in events:
            if what.startswith(LOSSES):
                return f"after a mild fault {who} got {what}: {detail}"
    gives = any(step.how == "detach" or step.what in ("count", "notify") for step in steps)
    if gives and any(what in ("cancelled", "BackendError") for _, what, _, _ in events):
        return ""  # what others wait for may never come
    more = _end(events) - _quiet_end(plan) - seconds
    pauses = plan.recheck if "refuse" in kinds else 0.0  # the next request comes that late
    if more <= ALLOWED * len(plan.faults) + pauses:
        return ""
    return f"all work ends {more:.3f} s later than without the fault"


def _end(events: list[tuple[float, str, str, str]]) -> float:
    """When the last task had done its last step."""
    own = ("enter", "leave", "cancel")
    return max((now for now, what, who, _ in events if who.startswith("w") and what not in own), default=START)
