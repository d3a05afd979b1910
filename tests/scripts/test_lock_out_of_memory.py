"""A server at its memory limit lets no one new in, and all holders and waiters continue."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import SCRIPTS, renew
from aiolock.scripts.outcomes import Granted, Kept, Passed, Queued, Released, Renewed
from aiolock.testing.server import RedisServer
from tests.support import redis_cli
from tests.support.lock_calls import FENCE, HIGH, LIVENESS, TTL, Lock, enter, expire, forget, hears, state, waiters
from tests.support.scripting import LuaSide
from tests.support.scripting import Refused as Failure

NAME = Lock()
HELD = NAME.acquire(Bid("m:1", TTL, HIGH, "me"))
OOM = "OOM|maxmemory"


@pytest.fixture
def full(own_server: RedisServer) -> Iterator[tuple[LuaSide, Callable[[], None]]]:
    """A side, and what fills its server up to the limit."""
    with redis_cli.client(own_server.url) as link:
        side = LuaSide(link)
        for script in SCRIPTS:
            side.load(script)
        hears(side, NAME, "m", "n", "o")
        yield side, lambda: redis_cli.fill(link)
        side.close()


Full = tuple[LuaSide, Callable[[], None]]


def test_no_one_is_let_in_and_nothing_is_left(full: Full) -> None:
    side, fill = full
    fill()
    with pytest.raises(Failure, match=OOM):
        side.run(HELD)
    assert not any(side.exists(key) for key in NAME.keys)


def test_no_one_new_queues(full: Full) -> None:
    side, fill = full
    side.run(HELD)
    fill()
    with pytest.raises(Failure, match=OOM):
        side.run(NAME.acquire(Bid("n:1", TTL, 0, "", LIVENESS)))
    assert not side.exists(NAME.queue)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("tainted", [False, True])
def test_release_works(tainted: bool, waits: bool, full: Full) -> None:
    """Guards PEXPIRE in `write`: after it, the limit no longer applies (H11). The fence is kept."""
    side, fill = full
    side.run(HELD)
    enter(side, NAME, *["n:1"] * waits)
    fill()
    assert side.run(NAME.release("m:1", TTL, 0, "clean", tainted)) == Released(FENCE)
    found = state(side, NAME)
    assert (found.owner, found.fence) == (("n:1", FENCE + 1) if waits else ("", FENCE))
    assert side.exists(NAME.dead("m:1")) == tainted


@pytest.mark.parametrize("over", [False, True])
def test_a_hand_off_works(over: bool, full: Full) -> None:
    side, fill = full
    side.run(HELD)
    enter(side, NAME, "n:1")
    fill()
    moved = side.run(NAME.transfer("m:1", FENCE, Bid("m:2", TTL, 0, "", LIVENESS, True), over, False))
    assert isinstance(moved, Passed if over else Granted)
    assert state(side, NAME).owner == ("n:1" if over else "m:2")
    assert waiters(side, NAME) == (["m:2"] if over else ["n:1"])


def test_a_hold_is_nested_renewed_and_lowered(full: Full) -> None:
    side, fill = full
    side.run(HELD)
    fill()
    assert isinstance(side.run(NAME.nest("m:1", FENCE, TTL, 2)), Kept)
    assert side.run(renew([NAME.renewal("m:1", FENCE, 2 * TTL)])) == [Renewed(2 * TTL)]
    assert isinstance(side.run(NAME.release("m:1", TTL, 1, "clean", False)), Kept)
    assert state(side, NAME).depth == 1


def test_a_waiter_stays_alive_and_is_granted(full: Full) -> None:
    """Guards PEXPIRE before HSET in refresh."""
    side, fill = full
    side.run(HELD)
    enter(side, NAME, "n:1", "o:1")
    forget(side, NAME, "n")
    fill()
    batch = NAME.refresh_many([NAME.alive_of("n:1", LIVENESS)])
    (queued,) = side.run(batch)
    assert isinstance(queued, Queued)
    assert side.hash(NAME.alive)["n"] != "1+"
    side.link.config_set("maxmemory", 0)
    expire(side, NAME)
    side.link.config_set("maxmemory", 1)
    (granted,) = side.run(batch)
    assert isinstance(granted, Granted)


@pytest.mark.parametrize("used", [False, True])
def test_what_replicas_must_acknowledge(used: bool, full: Full) -> None:
    """Its first write extends what is there: so a name that was used a moment ago is granted past the limit, but whole;
    a new one is refused, as ever.
    """
    side, fill = full
    if used:
        side.run(HELD)
        side.run(NAME.release("m:1", TTL, 0, "clean", False))
    fill()
    call = NAME.acquire(Bid("n:1", TTL, 0, "you", LIVENESS))
    call.script = call.script.replicated
    side.load(call.script)
    if not used:
        with pytest.raises(Failure, match=OOM):
            side.run(call)
        assert not any(side.exists(key) for key in NAME.keys)
        return
    granted = side.run(call)
    assert isinstance(granted, Granted)
    found = state(side, NAME)
    assert (found.owner, found.fence, found.depth) == ("n:1", granted.fence, 1)
    assert granted.fence > FENCE
    assert side.run(renew([NAME.renewal("n:1", granted.fence, TTL)])) == [Renewed(TTL)]
    assert side.run(NAME.release("n:1", TTL, 0, "clean", False)) == Released(granted.fence)


def test_force_release_works(full: Full) -> None:
    side, fill = full
    side.run(HELD)
    fill()
    assert side.run(NAME.force_release()) is True
    assert state(side, NAME).owner == ""
