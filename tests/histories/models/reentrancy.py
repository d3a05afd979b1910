"""The reentrant mutex: a task that has a name gets it again, with the same fence, without waiting for itself.

That no other gets in before the outermost has left is what `exclusion` says.
"""

from __future__ import annotations

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation

MODEL = "reentrant mutex"


def check(history: History) -> Violation | None:
    """Return the first nested attempt that was not given what its task had."""
    for inner in history.attempts:
        outer = inner.root
        if outer is None or outer is inner:
            continue
        if inner.granted < NEVER and not inner.lost_at_once:
            if inner.fence != outer.fence:
                return Violation.of(MODEL, f"{inner} is nested in {outer}, and has another fence", outer, inner)
        elif inner.reason == "AcquireTimeout" and outer.how == "done" and _calm(history, inner):
            return Violation.of(MODEL, f"{inner} waited for {outer}, in which it is nested", outer, inner)
    return None


def _calm(history: History, inner: Attempt) -> bool:
    period = Period(inner.began, inner.ended)
    return history.calm(period) and not history.stood_still(inner.pid, period)
