"""A state whose numbers someone has changed is refused, and left as it was; the error says which key to delete."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.foreign import foreign
from aiolock.scripts.latch import LatchCalls
from aiolock.scripts.lock import renew
from aiolock.scripts.multi import MultiCalls
from aiolock.scripts.once import OnceCalls
from aiolock.scripts.outcomes import Failed, Granted, Refused, Released
from tests.support.lock_calls import FENCE, HIGH, LIVENESS, TTL, Lock
from tests.support.queues import KEYS, RW, SEMAPHORE, Queue, assert_sound
from tests.support.scripting import Refused as Failure
from tests.support.scripting import Side

LOCK, MANY, LATCH = Lock(), MultiCalls(KEYS, ["order:42", "order:43"]), LatchCalls(KEYS, "order:42", 2, TTL)
PERMITS, WRITE = Queue(SEMAPHORE, want=2), Queue(RW, want=1)
DAMAGE = pytest.mark.parametrize("value", ["", "abc", "-5", "1e300", "nan", "1" * 17, "1.5"])
OF_QUEUE = ("used", "holders", "waiters", "longest", "expires", "capacity", "serial", "fence", "abandoned", "shut")


def refuses(side: Side, key: str, call: Call[Any]) -> None:
    """Check that it is refused with a text that names the key, which stays as it was."""
    before = side.hash(key)
    with pytest.raises(Failure, match=f"BADSTATE {re.escape(key)}") as refused:
        side.run(call)
    assert f"delete the key {key!r}" in str(foreign(str(refused.value)))
    assert side.hash(key) == before


@DAMAGE
@pytest.mark.parametrize("field", OF_QUEUE)
@pytest.mark.parametrize("name", [PERMITS, WRITE], ids=["semaphore", "rw"])
def test_of_what_has_a_capacity(side: Side, name: Queue, field: str, value: str) -> None:
    """Kept by `check` in state.lua: a number below 0 let a second one in, and others ended scripts in between."""
    side.run(name.request("m:1", TTL, HIGH, "me"))
    side.hset(name.hash, {field: value})
    refuses(side, name.hash, name.request("n:1", TTL, 0, ""))
    refuses(side, name.hash, name.release("m:1", TTL, 0, "clean", False))
    refuses(side, name.hash, name.info())
    (renewed,) = side.run(name.renew_many([name.renewal("m:1", FENCE, TTL)]))
    assert isinstance(renewed, Failed)
    assert "delete the key" in renewed.error
    assert not renewed.transient


@DAMAGE
@pytest.mark.parametrize("field", ["fence", "before", "depth", "abandoned", "expires"])
@pytest.mark.parametrize("many", [False, True], ids=["lock", "multi"])
def test_of_a_held_lock(side: Side, many: bool, field: str, value: str) -> None:
    """Kept by `read` in lock/state.lua, and by the shortcuts, which leave such a state to it."""
    side.run(LOCK.acquire(Bid("m:1", TTL, HIGH, "me")))
    side.hset(LOCK.state, {field: value})
    asked = MANY.acquire(Bid("n:+1", TTL, 0, "", LIVENESS)) if many else LOCK.acquire(Bid("n:1", TTL, 0, ""))
    refuses(side, LOCK.state, asked)
    refuses(side, LOCK.state, LOCK.info())
    if field == "fence" or (field == "expires" and not value.isdecimal()):
        (renewed,) = side.run(renew([LOCK.renewal("m:1", FENCE, TTL)]))
        assert isinstance(renewed, Failed)
        assert "delete the key" in renewed.error
    if field == "fence" and not value.isdecimal():
        refuses(side, LOCK.state, LOCK.release("m:1", TTL, 0, "clean", False))


@DAMAGE
@pytest.mark.parametrize("many", [False, True], ids=["lock", "multi"])
def test_of_a_free_lock(side: Side, many: bool, value: str) -> None:
    """Kept by the shortcuts acquire_free.lua, which look at the fence first."""
    side.run(LOCK.acquire(Bid("m:1", TTL, HIGH, "me")))
    side.run(LOCK.release("m:1", TTL, 0, "clean", False))
    side.hset(LOCK.state, {"fence": value})
    refuses(side, LOCK.state, MANY.acquire(Bid("n:+1", TTL, 0, "")) if many else LOCK.acquire(Bid("n:1", TTL, 0, "")))


@DAMAGE
@pytest.mark.parametrize("field", ["left", "total"])
def test_of_a_latch(side: Side, field: str, value: str) -> None:
    key = KEYS.of("latch", "order:42").lock
    side.run(LATCH.count_down("m:1"))
    side.hset(key, {field: value})
    for call in (LATCH.count_down("m:2"), LATCH.query()):
        refuses(side, key, call)
    assert side.run(LATCH.delete())


@DAMAGE
@pytest.mark.parametrize("field", ["fence", "started"])
def test_of_a_run(side: Side, field: str, value: str) -> None:
    once, key = OnceCalls(KEYS, "order:42"), KEYS.of("once", "order:42").lock
    granted = side.run(LOCK.acquire(Bid("m:1", TTL, 0, "me")))
    assert isinstance(granted, Granted)
    side.run(once.begin(granted.fence, TTL, [], "web-3:4711"))
    side.hset(key, {field: value})
    refuses(side, key, once.begin(granted.fence, TTL, [], "web-3:4711"))
    refuses(side, key, once.last_run())
    assert side.run(once.forget())


@pytest.mark.parametrize("value", ["", "0.3 ", "abc", "x" * 1000, "\n"])
def test_a_version_that_is_none(side: Side, value: str) -> None:
    """Its text is not repeated. Kept by the last line of `check`."""
    for key, call in ((LOCK.state, LOCK.acquire(Bid("n:1", TTL, 0, ""))), (PERMITS.hash, PERMITS.info())):
        side.hset(key, {"version": value})
        refuses(side, key, call)


@pytest.mark.parametrize("value", [None, "0"])
@pytest.mark.parametrize("name", [PERMITS, WRITE], ids=["semaphore", "rw"])
def test_a_hash_that_does_not_say_until_when_it_lasts(side: Side, name: Queue, value: str | None) -> None:
    """A field that is 0 may be missing. Kept by clock.lua: then this server's clock counts."""
    side.run(name.request("m:1", TTL, HIGH, "me"))
    kept = {field: text for field, text in side.hash(name.hash).items() if field != "expires"}
    side.delete(name.hash)
    side.hset(name.hash, kept if value is None else kept | {"expires": value})
    side.shorten(name.hash, TTL)
    assert isinstance(side.run(name.request("n:1", TTL, 0, "")), Refused)
    side.run(name.request("n:1", TTL, 0, "", queue_number=0))
    assert_sound(side, name)
    assert isinstance(side.run(name.release("m:1", TTL, 0, "clean", False)), Released)
    assert isinstance(side.run(name.request("n:1", TTL, 0, "")), Granted)
    assert_sound(side, name)
