"""What must hold of a history, whatever happened to the servers."""

from __future__ import annotations

from collections.abc import Sequence

from tests.crossproc.conftest import LATE

from .history import History
from .load import Load

WINDOW = 1.0
"""Seconds: for so long at most two are inside after a failover without `min_replicas`."""
LEAST = 30


def judge(history: History, load: Load, healed: Sequence[float], window: float) -> None:
    """Check a history.

    Args:
        history: of the whole load.
        load: what it was.
        healed: when everything was well again.
        window: for how long two may have been inside one name, in seconds.
    """
    assert len(history.holds) >= LEAST
    assert history.unfinished == []
    history.check_fences()
    assert history.window <= window, history.overlaps()[0]
    for moment in healed:
        for attempt in history.waits(moment):
            assert attempt.until - moment <= load.patience + history.paused(moment, attempt.until), attempt
    for attempt in history.attempts:
        took = attempt.until - attempt.since
        longest = load.timeout + load.options["request_timeout"] + LATE
        assert took <= longest + history.paused(attempt.since, attempt.until), attempt
        if attempt.error == "AcquireTimeout":
            assert took >= load.timeout - 0.1, attempt
