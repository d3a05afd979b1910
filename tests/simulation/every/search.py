"""What can be exhausted: lists of plans of a scene, cut into units of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..plan import Fault, Plan
from .faults import all_kinds, cuts_and_cancels, delays, doubts, with_one_more
from .judge import Verdict, judge
from .scenes import SCENES

SLICE = 40
"""Runs of a unit, where each plan of it stands alone."""
FEW = 3
"""Broken promises that a unit tells of; the others are counted."""


@dataclass(frozen=True)
class Kind:
    """How a scene is exhausted.

    Attributes:
        faults: those of which each comes before each step.
        depth: how many of them a plan has at most.
        one_a_shape: of plans whose histories are alike, one gets more faults.
    """

    faults: Callable[[Plan], list[Fault]]
    depth: int = 1
    one_a_shape: bool = False


KINDS = {
    "frequent": Kind(cuts_and_cancels),
    "singles": Kind(all_kinds),
    "preemption": Kind(delays),
    "preemptions": Kind(delays, 2),
    "pairs": Kind(doubts, 2, True),
}


@dataclass(frozen=True)
class Search:
    """One scene, exhausted in one way.

    Attributes:
        scene: its name.
        kind: of `KINDS`.
    """

    scene: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} of {self.scene}"

    @property
    def plan(self) -> Plan:
        """The scene without faults."""
        return SCENES[self.scene]


@dataclass
class Outcome:
    """What a unit found.

    Attributes:
        runs: how many.
        bad: how many broke a promise.
        told: some of those: what broke, and the plan.
    """

    runs: int
    bad: int
    told: list[tuple[str, str]]

    @classmethod
    def nothing(cls) -> Outcome:
        """Return one of no runs."""
        return cls(0, 0, [])

    def add(self, plan: Plan, verdict: Verdict) -> None:
        """Count a run."""
        self.runs += 1
        if verdict.why:
            self.bad += 1
            if len(self.told) < FEW:
                self.told.append((verdict.why, str(plan)))


def firsts(search: Search) -> list[Plan]:
    """Return the plans with one fault, in a fixed order.

    Raises:
        AssertionError: the scene breaks a promise without any fault.
    """
    verdict = judge(search.plan)
    if verdict.why:
        raise AssertionError(f"scene {search.scene} breaks a promise without any fault: {verdict.why}")
    return list(with_one_more(search.plan, KINDS[search.kind].faults(search.plan), verdict.steps))


def units(search: Search, shape: Callable[[list[Plan]], Iterable[str]]) -> list[tuple[Plan, ...]]:
    """Return all plans with one fault, in slices; where these get a second one, each is a unit.

    Args:
        search: what is exhausted.
        shape: runs plans, and returns the shape of each.
    """
    plans, kind = firsts(search), KINDS[search.kind]
    if kind.one_a_shape:
        plans = list(dict(zip(shape(plans[::-1]), plans[::-1], strict=True)).values())  # the first of each shape
    size = SLICE if kind.depth == 1 else 1
    return [tuple(plans[at : at + size]) for at in range(0, len(plans), size)]


def explore(kind: str, unit: tuple[Plan, ...]) -> Outcome:
    """Run a unit: its plans, and what is below them."""
    outcome, known = Outcome.nothing(), KINDS[kind]
    for plan in unit:
        verdict = judge(plan)
        outcome.add(plan, verdict)
        if known.depth > 1 and not verdict.why:
            at = plan.faults[-1].at
            assert isinstance(at, tuple)
            for one in with_one_more(plan, known.faults(plan), verdict.steps, at[1] + 1):
                outcome.add(one, judge(one))
    return outcome
