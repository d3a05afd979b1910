"""A seed, turned into what will happen."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .kinds import CREW, Kind
from .places import PLACES
from .uses import ALL

FAULT_SECONDS = 2.5
"""What a fault and its healing take, on average: how many there are in a round."""
CALM = 0.6
"""Seconds between two faults, at most."""
TTLS = (1.0, 3.0)
"""Seconds: faults outlast the shorter one; the longer one outlasts what a noisy machine does."""


@dataclass(frozen=True)
class Fault:
    """What is broken for a while.

    Attributes:
        group: "network", "crew" or "place": who does it.
        what: its kind.
        number: which worker or server, modulo how many there are.
        seconds: for how long.
        pause: seconds between the one before and this.
    """

    group: str
    what: str
    number: int
    seconds: float
    pause: float

    def __str__(self) -> str:
        return f"after {self.pause:.2f} s {self.what} #{self.number} for {self.seconds:.2f} s"


@dataclass(frozen=True)
class Plan:
    """One round.

    Attributes:
        seed: draws it again.
        place: where.
        workers: how many processes.
        options: of their managers.
        uses: what they do.
        faults: steps one after the other, each of one fault or several at once.
    """

    seed: str
    place: str
    workers: int
    options: dict[str, Any]
    uses: tuple[str, ...]
    faults: tuple[tuple[Fault, ...], ...]

    @property
    def replicated(self) -> bool:
        """Whether a grant counts only once a replica has it."""
        return "min_replicas" in self.options

    def __str__(self) -> str:
        steps = ["; ".join(map(str, step)) for step in self.faults]
        head = f"seed {self.seed}: {self.place}, {self.workers} workers, {self.options}, {' '.join(self.uses)}"
        return "\n".join([head, *(f"{number:4} {step}" for number, step in enumerate(steps, 1))])


def draw(seed: str, seconds: float, place: str | None = None) -> Plan:
    """Return the plan of a seed.

    Args:
        seed: any text; the same seed, length and place give the same plan.
        seconds: about how long its faults may take.
        place: where; None leaves it to the seed.
    """
    dice = random.Random(seed)
    drawn = dice.choice(sorted(PLACES))
    place = place or drawn
    kind = PLACES[place]
    options = _options(dice, place, kind.replicas)
    steps = max(3, round(seconds / FAULT_SECONDS))
    groups: dict[str, Mapping[str, Kind]] = {"crew": {**CREW, **kind.crew}, "place": kind.kinds}
    if kind.network:
        groups["network"] = kind.network
    faults = tuple(_step(dice, groups) for _ in range(steps))
    return Plan(seed, place, dice.choice((3, 3, 4)), options, tuple(kind.uses) or ALL, faults)


def _options(dice: random.Random, place: str, replicas: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"ttl": dice.choice(TTLS), "recheck": 1.0, "request_timeout": 1.5}
    options["handoff_limit"] = dice.choice((0, 2, 16, 16))
    if place != "quorum":
        options["liveness"] = dice.choice((1.0, 3.0))
    polls, replicated = dice.random() < 0.15, dice.random() < 0.5
    if polls and place in ("server", "redisson"):
        options["poll"] = True
    if place == "sentinel":
        options["ttl"] = max(TTLS)  # docs/how-to/topologies.md says why
    if replicated and replicas:
        options |= {"ttl": max(TTLS), "min_replicas": 1, "replica_timeout": 0.3}
    return options


def _step(dice: random.Random, groups: dict[str, Mapping[str, Kind]]) -> tuple[Fault, ...]:
    """One fault, or sometimes two of different groups at the same time."""
    chosen = dice.sample(sorted(groups), 2 if dice.random() < 0.2 else 1)
    return tuple(_fault(dice, group, groups[group]) for group in chosen)


def _fault(dice: random.Random, group: str, kinds: Mapping[str, Kind]) -> Fault:
    what = dice.choices(sorted(kinds), [kinds[name].weight for name in sorted(kinds)])[0]
    kind = kinds[what]
    seconds = kind.shortest + (kind.longest - kind.shortest) * dice.random() ** 2  # mostly short
    return Fault(group, what, dice.randrange(1000), round(seconds, 3), round(dice.uniform(0.0, CALM), 3))
