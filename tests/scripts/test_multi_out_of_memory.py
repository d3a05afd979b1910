"""A server at its memory limit refuses new multi locks with nothing held, and still renews and releases."""

from __future__ import annotations

import pytest

from aiolock.scripts.multi import SCRIPTS, MultiCalls, renew
from aiolock.scripts.outcomes import Granted, Kept, Released, Renewed
from tests.support.scripting import KEYS, Lock
from tests.support.scripting import Refused as Failure

from .test_out_of_memory import FENCE, HIGH, OOM, TTL, Full, full

__all__ = ["full"]  # the fixture

A, B = Lock("a"), Lock("b")
AB = MultiCalls(KEYS, ["a", "b"])


def test_at_the_memory_limit(full: Full) -> None:
    """Guards that the first write decides: a state's in acquire, PEXPIRE in a nested release, DEL in the last one."""
    side, fill = full
    for script in SCRIPTS:
        side.load(script)
    take = AB.acquire("m:+1", TTL, HIGH, "")
    assert isinstance(side.run(take), Granted)
    side.run(AB.acquire("m:+1", TTL, 0, "", depth=2, fence=FENCE))
    fill()
    with pytest.raises(Failure, match=OOM):
        side.run(AB.acquire("m:+1", TTL, 0, "", depth=3, fence=FENCE))
    assert [side.hash(lock.key) for lock in (A, B)] == [{"m:+1": "2"}] * 2
    assert side.run(renew([AB.renewal("m:+1", FENCE, 2 * TTL)])) == [Renewed(2 * TTL)]
    assert isinstance(side.run(AB.release("m:+1", TTL, 1, "clean", False)), Kept)
    assert [side.hash(lock.key) for lock in (A, B)] == [{"m:+1": "1"}] * 2
    assert isinstance(side.run(AB.release("m:+1", TTL, 0, "clean", True)), Released)
    assert [side.hash(lock.state)["clean"] for lock in (A, B)] == ["1", "1"]
    assert side.exists(A.dead("m:+1"))
    side.delete(A.state, B.state)
    with pytest.raises(Failure, match=OOM):
        side.run(AB.acquire("m:+2", TTL, 0, ""))
    assert not any(side.exists(key) for lock in (A, B) for key in (lock.key, lock.state))
