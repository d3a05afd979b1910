"""All models' finds in one history."""

from __future__ import annotations

from .history import History
from .models import endings, exclusion, fencing, jobs, joining, latch, order, reentrancy, release, slots, tickets
from .violation import Violation

MODELS = (exclusion, slots, reentrancy, fencing, order, release, latch, tickets, joining, jobs, endings)


def judge(history: History) -> list[Violation]:
    """Return the first violation that each model finds; nothing if all is well."""
    return [found for model in MODELS if (found := model.check(history)) is not None]
