"""What a hold is worth once its key is on a server with another clock: a slot was moved, or a backup restored."""

from __future__ import annotations

import pytest

from aiolock.scripts import multi
from aiolock.scripts.bid import Bid
from aiolock.scripts.keys import DIRTY_MS
from aiolock.scripts.outcomes import Granted, Kept, Queued, Refused, Released, Renewed
from tests.support.lock_calls import FENCE, HIGH, LIVENESS, TTL, Lock, change, state
from tests.support.scripting import KEYS, Side

NAME = Lock()
LEFT = TTL - 5000


@pytest.fixture(autouse=True)
def moved(side: Side) -> None:
    """Held, on a server whose clock is far ahead of that by which it was written: the key keeps how long it lasts."""
    side.run(NAME.acquire(Bid("m:1", TTL, HIGH, "me")))
    change(side, NAME, expires=1)
    side.shorten(NAME.state, DIRTY_MS + LEFT)


def close(pttl: int) -> bool:
    return LEFT - 4000 < pttl <= LEFT


def test_it_is_refused_to_others(side: Side) -> None:
    """Kept by acquire_free.lua and state.lua."""
    answer = side.run(NAME.acquire(Bid("n:1", TTL, 0, "")))
    assert isinstance(answer, Refused)
    assert answer.holder == "me"
    assert close(answer.pttl)


def test_it_is_not_handed_to_the_queue(side: Side) -> None:
    """Kept by state.lua."""
    assert isinstance(side.run(NAME.acquire(Bid("n:1", TTL, 0, "", LIVENESS))), Queued)
    (answer,) = side.run(NAME.refresh_many([NAME.alive_of("n:1", LIVENESS)]))
    assert isinstance(answer, Queued)
    assert close(answer.pttl)


def test_a_multi_lock_waits_for_it(side: Side) -> None:
    """Kept by multi/acquire_free.lua."""
    answer = side.run(multi.MultiCalls(KEYS, [NAME.name, "another"]).acquire(Bid("n:+1", TTL, 0, "")))
    assert isinstance(answer, Refused)
    assert answer.holder == "me"


def test_its_holder_goes_on(side: Side) -> None:
    answer = side.run(NAME.acquire(Bid("m:1", TTL, 0, "me")))
    assert isinstance(answer, Granted)
    assert answer.pttl > LEFT - 4000
    assert isinstance(side.run(NAME.nest("m:1", FENCE, 1000, 2)), Kept)
    assert side.run(NAME.renew_many([NAME.renewal("m:1", FENCE, TTL)])) == [Renewed(TTL)]
    assert state(side, NAME).live
    assert side.run(NAME.release("m:1", TTL, 0, "clean", False)) == Released(FENCE)


def test_it_can_be_resumed(side: Side) -> None:
    """Kept by transfer_local.lua."""
    answer = side.run(NAME.resume("m:1", FENCE, Bid("n:1", TTL, 0, ""), False))
    assert isinstance(answer, Granted)
    assert not answer.abandoned


def test_it_ends_with_its_key(side: Side) -> None:
    """The last day of the key is for the fence. Kept by state.lua: `left`."""
    side.shorten(NAME.state, DIRTY_MS)
    answer = side.run(NAME.acquire(Bid("n:1", TTL, 0, "")))
    assert isinstance(answer, Granted)
    assert answer.abandoned
