"""A renewal of names in several slots: what the answers of all slots mean together."""

from __future__ import annotations

import itertools

import pytest

from aiolock import BackendError, LossReason
from aiolock.core.renewals import JointRenewal
from aiolock.scripts.outcomes import Failed, Missing, Renewed

AWAY = BackendError("a + b", "away", transient=True)
Answer = tuple[Renewed | Missing | Failed, float]


class Renewal:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Answer | BackendError] = []

    def judged(self, outcome: Renewed | Missing | Failed, sent_at: float) -> None:
        self.told.append((outcome, sent_at))

    def unknown(self, error: BackendError) -> None:
        self.told.append(error)


@pytest.mark.parametrize("answers", list(itertools.permutations([(9_000, 3.0), (8_000, 5.0), (10_000, 4.0)])))
def test_all_have_extended_it(answers: tuple[tuple[int, float], ...]) -> None:
    """For the shortest time of all, which begins with the first request. Kept by JointRenewal.judged: `min`."""
    renewal = Renewal()
    joint = JointRenewal(renewal, len(answers))
    for at, (pttl, sent_at) in enumerate(answers):
        assert renewal.told == [], at
        joint.judged(Renewed(pttl), sent_at)
    assert renewal.told == [(Renewed(8_000), 3.0)]


def test_one_that_is_missing_is_enough() -> None:
    """It is told, even after another gave no verdict; nothing else is. Kept by JointRenewal.judged: `Missing`."""
    missing = Missing(LossReason.TAKEN_OVER)
    renewal = Renewal()
    joint = JointRenewal(renewal, 4)
    joint.unknown(AWAY)
    joint.judged(Failed("OOM"), 1.0)
    joint.judged(Renewed(9_000), 1.0)
    joint.judged(missing, 1.0)
    assert renewal.told == [AWAY, (missing, 1.0)]
