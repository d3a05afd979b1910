"""What both release.lua leave of a name that stays taken: nobody's, until a moment that no late request moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiolock.errors import LossReason
from aiolock.owner import is_kept
from aiolock.scripts.base import Call, Ending, Keep
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.outcome import OutcomeCalls
from aiolock.scripts.outcomes import Granted, Kept, Missing, Queued, Refused, Released
from aiolock.scripts.queue import QueueCalls
from tests.support.queues import RW, SEMAPHORE, Queue, assert_sound
from tests.support.scripting import KEYS, Side

TTL = 60_000
LEAST = 30_000
NAME = "order:42"
NAMES: dict[str, Callable[[], Any]] = {
    "lock": lambda: LockCalls(KEYS, NAME, 3_000),
    "semaphore": lambda: Queue(SEMAPHORE, want=2),
    "write": lambda: Queue(RW, want=1),
}


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> LockCalls | QueueCalls:
    made: LockCalls | QueueCalls = NAMES[request.param]()
    return made


def ended(name: LockCalls | QueueCalls, owner: str, ending: Ending = "clean", left_ms: int = TTL) -> Call[Any]:
    """The end of one that wants the name to stay taken."""
    return name.release(owner, TTL, 0, ending, False, Keep(TTL - LEAST, left_ms))


def acquire(side: Side, name: LockCalls | QueueCalls, owner: str) -> Any:
    return side.run(name.acquire(Bid(owner, TTL, 0, owner)))


def left(side: Side, name: LockCalls | QueueCalls) -> int:
    """For how many ms it stays taken; nobody has it."""
    held = side.run(name.info()).held
    if held is None:
        return 0
    assert is_kept(held.owner)
    pttl: int = held.pttl
    return pttl


@pytest.mark.parametrize("waited", [False, True])
def test_a_copy_of_the_release_changes_nothing(waited: bool, side: Side, name: LockCalls | QueueCalls) -> None:
    """Breaks if either release.lua ends more of its time for a copy, or takes a grant out of the queue for one: that
    has depth 0, too, until its owner renews it.
    """
    owner = "m:1"
    grant = acquire(side, name, owner)
    if waited:
        owner = "m:2"
        assert isinstance(side.run(name.acquire(Bid(owner, TTL, 0, "", 3_000, False))), Queued)
        side.run(name.release("m:1", TTL, 0, "clean", False))
        grant = acquire(side, name, owner)
    assert isinstance(grant, Granted)
    for _ in range(3):
        assert side.run(ended(name, owner)) == Released(grant.fence)
        assert LEAST - 10_000 < left(side, name) <= LEAST
    assert isinstance(acquire(side, name, "m:3"), Refused)
    if isinstance(name, Queue):
        assert_sound(side, name)


def test_the_shorter_of_two_times_counts(side: Side, name: LockCalls | QueueCalls) -> None:
    """A renewal may have come before it that its owner had no answer to. Guards `math.min`."""
    grant = acquire(side, name, "m:1")
    side.run(name.renew_many([name.renewal("m:1", grant.fence, 10 * TTL)]))
    side.run(ended(name, "m:1", left_ms=LEAST))
    assert LEAST - 10_000 < left(side, name) <= LEAST


def test_nothing_that_comes_late_finds_its_owner(side: Side, name: LockCalls | QueueCalls) -> None:
    """Guards the owner `<owner>=`: what names the owner that has ended means nothing."""
    grant = acquire(side, name, "m:1")
    side.run(ended(name, "m:1"))
    until = left(side, name)
    (renewed,) = side.run(name.renew_many([name.renewal("m:1", grant.fence, 10 * TTL)]))
    assert renewed == Missing(LossReason.TAKEN_OVER)
    assert not isinstance(side.run(name.nest("m:1", grant.fence, 10 * TTL, 2)), Kept | Granted)
    assert isinstance(side.run(name.resume("m:1", grant.fence, Bid("m:2", 10 * TTL, 0, ""), False)), Missing)
    side.run(name.release("m:1", TTL, 0, "declined", False))
    side.run(name.release("m:1", TTL, 0, "dirty", False))
    assert until - 10_000 < left(side, name) <= until


@pytest.mark.parametrize(("ending", "told"), [("clean", False), ("undone", False), ("dirty", True)])
def test_what_the_next_is_told(ending: Ending, told: bool, side: Side, name: LockCalls | QueueCalls) -> None:
    """How its owner ended, not that the time of the name ran out. Guards `abandoned` in both."""
    acquire(side, name, "m:1")
    side.run(name.release("m:1", TTL, 0, ending, False, Keep(TTL - 1, 1)))
    while left(side, name):
        pass
    grant = acquire(side, name, "m:2")
    assert isinstance(grant, Granted)
    assert grant.abandoned == told


def test_no_call_runs_in_a_name_that_only_stays_taken(side: Side) -> None:
    """Guards the owner in outcome/ask.lua: who joins would get the result of a call that ended before."""
    lock, outcome = LockCalls(KEYS, NAME, 3_000), OutcomeCalls(KEYS, NAME)
    grant = acquire(side, lock, "m:1")
    assert side.run(outcome.ask())[:2] == (grant.fence, True)
    side.run(ended(lock, "m:1"))
    assert side.run(outcome.ask())[:2] == (grant.fence, False)
