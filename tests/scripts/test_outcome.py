"""The scripts of calls that others join: both sides keep the promises of the headers."""

from __future__ import annotations

from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcome import OutcomeCalls, Seen
from aiolock.scripts.outcomes import Granted
from tests.support.scripting import KEYS, Side

LOCK = LockCalls(KEYS, "n", 1000)
OUTCOME = OutcomeCalls(KEYS, "n")
KEPT = KEYS.of("outcome", "n").lock
KEEP_MS = 60_000


def held(side: Side) -> int:
    grant = side.run(LOCK.acquire(Bid("m:1", 200_000, 0, "")))
    assert isinstance(grant, Granted)
    return grant.fence


def test_an_outcome_and_who_runs(side: Side) -> None:
    """Guards `there` in ask.lua: that of an earlier call is not wanted."""
    assert side.run(OUTCOME.ask()) == Seen(0, False, None)
    fence = held(side)
    assert side.run(OUTCOME.ask()) == Seen(fence, True, None)
    assert side.run(OUTCOME.keep(fence, "{}", KEEP_MS, 0.0))
    assert 0 < side.pttl(KEPT) <= KEEP_MS
    assert side.run(OUTCOME.ask()) == Seen(fence, True, None)
    assert side.run(OUTCOME.ask(fence))[:3] == (fence, True, "{}")
    assert side.run(OUTCOME.ask(fence + 1)) == Seen(fence, True, None)
    side.run(LOCK.release("m:1", 200_000, 0, "clean", False))
    assert side.run(OUTCOME.ask(fence))[:3] == (0, False, "{}")


def test_a_late_outcome_changes_nothing(side: Side) -> None:
    """A copy, or one of a call that lost its lock. Guards `tonumber(kept[2]) >= tonumber(ARGV[1])`."""
    assert side.run(OUTCOME.keep(20, "later", KEEP_MS, 0.0))
    for fence in (20, 9):  # as text, 9 is greater
        assert not side.run(OUTCOME.keep(fence, "late", 1, 0.0))
    assert side.run(OUTCOME.ask(20))[:3] == (0, False, "later")
    assert side.pttl(KEPT) > 1000
    assert side.run(OUTCOME.keep(100, "latest", KEEP_MS, 0.0))
    assert side.run(OUTCOME.ask(100))[:3] == (0, False, "latest")


def test_how_long_ago_a_call_ended(side: Side) -> None:
    """By the server's time of its grant, and by how long it ran; not by when that was told. Guards `ended`."""
    grant = side.run(LOCK.acquire(Bid("m:1", 200_000, 0, "")))
    assert isinstance(grant, Granted)
    fence = grant.fence - 5_000_000  # it has run for seconds
    side.run(OUTCOME.keep(fence, "{}", KEEP_MS, 2.0))
    assert 3.0 <= side.run(OUTCOME.ask(fence)).ago < 3.0 + 60.0
    side.run(OUTCOME.keep(fence + 1, "{}", KEEP_MS, 3600.0))  # as if that clock ran faster
    assert side.run(OUTCOME.ask(fence)).ago == 0.0
