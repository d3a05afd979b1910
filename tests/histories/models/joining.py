"""Calls that join: each gets what a run returned or raised that had not ended before the call began.

That no two runs overlap is what `exclusion` says: a call that runs itself is inside the lock of that name.
"""

from __future__ import annotations

from ..attempt import NEVER, Attempt
from ..history import History
from ..period import Period
from ..violation import Violation

MODEL = "joined call"


def check(history: History) -> Violation | None:
    """Return the first call that was told what it should not have been."""
    runs = {f"{run.pid}:{run.number}": run for run in history.attempts if run.kind == "join" and run.granted < NEVER}
    for call in history.attempts:
        if call.told is None:
            continue
        run = runs.get(call.told["run"])
        if run is None:
            return Violation.of(MODEL, f"{call} was told of a run that there was not: {call.told['run']}", call)
        if run.told is not None and run.told != call.told and run.told["raised"] != call.told["raised"]:
            return Violation.of(MODEL, f"one of {run} and {call} returned what the other raised", run, call)
        if run is not call and call.granted < NEVER:
            return Violation.of(MODEL, f"{call} ran, and was told of {run}", run, call)
        over = min(run.ended, history.killed.get(run.pid, NEVER))
        if call.began > over + _late(history, Period(run.granted, call.began), run):
            return Violation.of(MODEL, f"{call} joined {run}, which had ended before it began", run, call)
    return None


def _late(history: History, period: Period, run: Attempt) -> float:
    """For how many seconds after its end the server may not know of it."""
    if history.calm(period) and not history.stood_still(run.pid, period) and run.pid not in history.killed:
        return 0.0
    limits = ("ttl", 30.0), ("liveness", 3.0), ("request_timeout", 5.0)
    return sum(float(history.plan.get(name, default)) for name, default in limits)
