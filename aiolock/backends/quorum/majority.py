"""What a majority of the nodes' answers means, script by script."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ...errors import LossReason
from ...scripts.base import Script
from ...scripts.lock import FORCE_RELEASE, INFO, NEST, RENEW, REQUEST_RELEASE
from ...scripts.outcomes import (
    Asked,
    Failed,
    Held,
    Kept,
    Missing,
    Released,
    ReleaseOutcome,
    Renewed,
    RenewOutcome,
    Standing,
)
from .members import Members

R = TypeVar("R")

DRIFT = 0.01
"""How far two clocks may drift apart in one ttl, as a share of it: one hundredth, as in Redlock."""
DRIFT_MS = 2
"""The same again for a server that expires to the millisecond."""

Answer = tuple[float, R]
"""A node's answer, and when the request was written there."""


class Tally(Generic[R]):
    """The answers so far, without nodes that failed.

    Args:
        members: the nodes that were asked.
        answers: their answers.
        final: no more will come in time.
    """

    def __init__(self, members: Members, answers: Sequence[Answer[R]], final: bool) -> None:
        self.answers: Sequence[Answer[R]] = answers
        self.final: bool = final
        self.quorum: int = members.quorum
        self.began: float = min((sent_at for sent_at, _ in answers), default=0.0)
        self._members = members

    def hopeless(self, against: int) -> bool:
        """Whether so many nodes are against it that no majority can be for it."""
        return self._members.hopeless(against)

    def lasting(self, terms: Sequence[tuple[float, int]]) -> int:
        """Milliseconds from `began` for which a majority keeps the lock.

        Args:
            terms: when the request was written, and the PTTL in the answer; from at least a majority.
        """
        # Until the quorum-th largest of their ends: then so many still keep it that the others are no majority.
        ends = sorted(sent_at * 1000 + pttl - pttl * DRIFT - DRIFT_MS for sent_at, pttl in terms)
        return math.floor(ends[-self.quorum] - self.began * 1000)


Rule = Callable[[Tally[R]], tuple[R] | None]
"""Return the quorum's answer in a tuple; None while no majority agrees, or if none can."""


def nested(tally: Tally[Kept | Missing]) -> tuple[Kept | Missing] | None:
    terms = [(sent_at, outcome.pttl) for sent_at, outcome in tally.answers if isinstance(outcome, Kept)]
    if len(terms) >= tally.quorum:
        return (Kept(tally.lasting(terms)),)
    reasons = [outcome.reason for _, outcome in tally.answers if isinstance(outcome, Missing)]
    return (Missing(_commonest(reasons)),) if tally.hopeless(len(reasons)) else None


def released(tally: Tally[ReleaseOutcome]) -> tuple[ReleaseOutcome] | None:
    freed = [outcome for _, outcome in tally.answers if isinstance(outcome, Released)]
    if len(freed) >= tally.quorum:
        return (Released(max(outcome.fence for outcome in freed), any(outcome.heard for outcome in freed)),)
    kept = [outcome.pttl for _, outcome in tally.answers if isinstance(outcome, Kept)]
    if len(kept) >= tally.quorum:
        return (Kept(min(kept)),)
    reasons = [outcome.reason for _, outcome in tally.answers if isinstance(outcome, Missing)]
    return (Missing(_commonest(reasons)),) if tally.hopeless(len(reasons)) else None


def renewed(tally: Tally[list[RenewOutcome]]) -> tuple[list[RenewOutcome]] | None:
    if len(tally.answers) < tally.quorum:
        return None
    lines = zip(*(outcomes for _, outcomes in tally.answers), strict=True)
    sent = [sent_at for sent_at, _ in tally.answers]
    verdicts = [_renewed(tally, list(zip(sent, line, strict=True))) for line in lines]
    known = [verdict for verdict in verdicts if verdict is not None]
    return (known,) if len(known) == len(verdicts) else None


def _renewed(tally: Tally[list[RenewOutcome]], line: Sequence[tuple[float, RenewOutcome]]) -> RenewOutcome | None:
    terms = [(sent_at, outcome.pttl) for sent_at, outcome in line if isinstance(outcome, Renewed)]
    if len(terms) >= tally.quorum:
        return Renewed(tally.lasting(terms))
    reasons = [outcome.reason for _, outcome in line if isinstance(outcome, Missing)]
    if tally.hopeless(len(reasons)):
        return Missing(_commonest(reasons))
    errors = [outcome.error for _, outcome in line if isinstance(outcome, Failed)]
    detail = "; ".join(errors) or "the others did not answer"
    if tally.final:
        return Failed(f"{len(terms)} nodes renewed it, {len(reasons)} do not have it: {detail}")
    return None


def forced(tally: Tally[bool]) -> tuple[bool] | None:
    return (any(freed for _, freed in tally.answers),) if tally.final and len(tally.answers) >= tally.quorum else None


def asked(tally: Tally[Asked]) -> tuple[Asked] | None:
    owners = Counter(asked.owner for _, asked in tally.answers if asked.owner)
    for owner, count in owners.most_common(1):
        if count >= tally.quorum:
            fences = Counter(asked.fence for _, asked in tally.answers if asked.owner == owner)
            return (Asked(owner, fences.most_common(1)[0][0]),)
    most = max(owners.values(), default=0)
    return (Asked("", 0),) if tally.hopeless(len(tally.answers) - most) else None


def seen(tally: Tally[Standing]) -> tuple[Standing] | None:
    found = [(sent_at, standing.held) for sent_at, standing in tally.answers if standing.held is not None]
    owners = Counter(held.owner for _, held in found)
    for owner, count in owners.most_common(1):
        if count >= tally.quorum:
            views = [(sent_at, held) for sent_at, held in found if held.owner == owner]
            # A majority has the agreed fence and depth; a node that was slow may still have others.
            (fence, depth), sharing = Counter((held.fence, held.depth) for _, held in views).most_common(1)[0]
            if sharing < tally.quorum and not tally.final:
                return None
            pttl = tally.lasting([(sent_at, held.pttl) for sent_at, held in views])
            return (_standing(views[0][1]._replace(fence=fence, depth=depth, pttl=pttl)),)
    most = max(owners.values(), default=0)
    return (_standing(None),) if tally.hopeless(len(tally.answers) - most) else None


def _standing(held: Held | None) -> Standing:
    """Return the view of a name without a queue."""
    used = 0 if held is None else 1
    return Standing(used, used, 1, 0 if held is None else held.fence, 0, None, held)


def _commonest(reasons: Sequence[LossReason]) -> LossReason:
    return Counter(reasons).most_common(1)[0][0]


RULES: dict[Script[Any], Rule[Any]] = {
    NEST: nested,
    RENEW: renewed,
    FORCE_RELEASE: forced,
    REQUEST_RELEASE: asked,
    INFO: seen,
}
