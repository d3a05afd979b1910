"""A server at its memory limit refuses new multi locks with nothing held, and still renews and releases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import SCRIPTS as PLAIN_SCRIPTS
from aiolock.scripts.multi import SCRIPTS, renew
from aiolock.scripts.outcomes import Kept, Queued, Released, Renewed
from tests.support.lock_calls import state
from tests.support.multi import LIVENESS, Multi, Name, granted, holders, waiting
from tests.support.scripting import KEYS, LuaSide
from tests.support.scripting import Refused as Failure

from .test_queue_out_of_memory import OOM, TTL, full

__all__ = ["full"]  # the fixture

A, B = Name("a"), Name("b")
AB = Multi(A, B)


@pytest.fixture
def side(full: tuple[LuaSide, Callable[[], None]]) -> LuaSide:
    for script in (*SCRIPTS, *PLAIN_SCRIPTS):
        full[0].load(script)
    return full[0]


def test_a_hold_is_nested_in_renewed_lowered_and_released_to_waiters(
    side: LuaSide, full: tuple[LuaSide, Callable[[], None]]
) -> None:
    """Guards PEXPIRE in state.lua: only the first write of a script is refused."""
    fence = granted(side.run(AB.acquire(Bid("m:+1", TTL, 0, "")))).fence
    side.run(AB.nest("m:+1", fence, TTL, 2))
    side.listen(KEYS.manager("o"))
    side.run(B.acquire(Bid("o:1", TTL, 0, "", LIVENESS)))
    full[1]()
    (renewed,) = side.run(renew([AB.renewal("m:+1", fence, 2 * TTL)]))
    assert isinstance(renewed, Renewed)
    assert isinstance(side.run(AB.release("m:+1", TTL, 1, "clean", False)), Kept)
    assert [state(side, name).depth for name in (A, B)] == [1, 1]
    assert isinstance(side.run(AB.release("m:+1", TTL, 0, "clean", True)), Released)
    assert holders(side, [A, B]) == ["", "o:1"]
    assert side.exists(A.dead("m:+1"))


def test_nothing_is_granted_and_no_one_queues(side: LuaSide, full: tuple[LuaSide, Callable[[], None]]) -> None:
    side.run(B.acquire(Bid("n:1", TTL, 0, "")))
    full[1]()
    with pytest.raises(Failure, match=OOM):
        side.run(AB.acquire(Bid("m:+1", TTL, 0, "", LIVENESS)))
    assert waiting(side, B) == []
    side.run(B.release("n:1", TTL, 0, "clean", False))
    with pytest.raises(Failure, match=OOM):
        side.run(AB.acquire(Bid("m:+1", TTL, 0, "")))
    assert holders(side, [A, B]) == ["", ""]


def test_reservations_are_kept_and_given_back(side: LuaSide, full: tuple[LuaSide, Callable[[], None]]) -> None:
    for name in (A, B):
        side.run(name.acquire(Bid("n:1", TTL, 0, "")))
    side.listen(KEYS.manager("m"))
    side.run(AB.acquire(Bid("m:+1", TTL, 0, "", LIVENESS)))
    side.run(A.release("n:1", TTL, 0, "clean", False))
    assert holders(side, [A, B]) == ["m:+1", "n:1"]
    side.run(AB.acquire(Bid("m:+1", TTL, 0, "", LIVENESS)))
    full[1]()
    assert isinstance(side.run(AB.acquire(Bid("m:+1", TTL, 0, "", 2 * LIVENESS))), Queued)
    side.run(AB.give_back("m:+1", TTL, "b"))
    assert holders(side, [A, B]) == ["", "n:1"]
