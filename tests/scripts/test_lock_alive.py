"""What :alive promises: whoever waits is known with its process, whatever request says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.multi import MultiCalls
from aiolock.scripts.outcomes import Granted, Queued, Released
from tests.support.lock_calls import (
    FENCE,
    HIGH,
    LIVENESS,
    TTL,
    Lock,
    enter,
    expire,
    forget,
    hears,
    signs,
    state,
    waiters,
)
from tests.support.scripting import KEYS, Side

NAME = Lock()
OTHER = Lock("order:43")
BOTH = MultiCalls(KEYS, [NAME.name, OTHER.name])
HELD = NAME.acquire(Bid("m:1", TTL, HIGH, "web-1:1"))
ABOUT = "web 3:4711\nü \0 + what it does\n"
PROCESS = "web 3:4711"


def passing(next_: str) -> Call[Any]:
    return NAME.transfer("m:1", FENCE, Bid(next_, TTL, 0, ABOUT, LIVENESS, True), True, False)


CALLS: dict[str, Callable[[bool], Call[Any]]] = {
    "acquire": lambda counted: NAME.acquire(Bid("o:1", TTL, 0, ABOUT, LIVENESS, counted)),
    "refresh": lambda counted: NAME.refresh_many(
        [OTHER.alive_of("n:9", LIVENESS), NAME.alive_of("o:1", LIVENESS, counted, ABOUT)]
    ),
    "multi": lambda counted: BOTH.acquire(Bid("o:+1", TTL, 0, ABOUT, LIVENESS, counted)),
    "refresh of a multi": lambda counted: BOTH.refresh_many(
        [BOTH.refresh(Bid("o:1", TTL, 0, ABOUT, LIVENESS, counted, 0), NAME.name)]
    ),
}


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("kind", CALLS)
def test_it_says_who_waits(kind: str, counted: bool, side: Side) -> None:
    """The metadata of its lock stay with the lock: they may be long. Guards lives: `[^\\n]`."""
    side.run(HELD)
    if "refresh" in kind:
        enter(side, NAME, "o:1")
        forget(side, NAME, "o")
    side.run(CALLS[kind](counted))
    found = signs(side, NAME)["o"]
    assert found[1:] == (counted, PROCESS)
    assert found.until > state(side, NAME).expires - TTL


@pytest.mark.parametrize("kind", ["lock", "multi"])
def test_one_that_is_granted_at_once_says_it_for_others(kind: str, side: Side) -> None:
    """For those that were in the queue with it. Guards `join` in acquire.lua, and in read.lua."""
    side.score(NAME.queue, "gone:1", 1)
    names, owner = (NAME, "o:1") if kind == "lock" else (BOTH, "o:+1")
    assert isinstance(side.run(names.acquire(Bid(owner, TTL, 0, ABOUT, LIVENESS, True, number=7))), Granted)
    assert signs(side, NAME)["o"][1:] == (True, PROCESS)


@pytest.mark.parametrize("hears_", [True, False], ids=["transfer_pass", "transfer"])
def test_one_whose_turn_is_over_says_it_too(hears_: bool, side: Side) -> None:
    hears(side, NAME, *(["n"] if hears_ else []))
    side.run(HELD)
    enter(side, NAME, "n:1", counted=hears_)
    side.run(passing("m:2"))
    assert waiters(side, NAME) == ["m:2"]
    assert signs(side, NAME)["m"][1:] == (True, PROCESS)


@pytest.mark.parametrize("text", ["+", "", "+ web-3:4711", " web-3:4711", "+ "])
@pytest.mark.parametrize("fast", [True, False])
def test_every_form_is_read(text: str, fast: bool, side: Side) -> None:
    """With and without a process: 0.2.0 writes none. Guards the patterns of settle, release_pass and sweep."""
    hears(side, NAME, "n")
    side.run(HELD)
    enter(side, NAME, "n:1")
    side.hset(NAME.alive, {"n": f"{state(side, NAME).expires}{text}", **{f"x{i}": f"1{text}" for i in range(70)}})
    enter(side, NAME, "o:1")
    assert signs(side, NAME).keys() == {"n", "o"}
    assert side.run(NAME.release("m:1", TTL, 0, "clean" if fast else "dirty", False)) == Released(FENCE)
    assert state(side, NAME).owner == "n:1"
    assert waiters(side, NAME) == ["o:1"]


@pytest.mark.parametrize("how", ["release", "release_pass", "transfer", "transfer_pass", "acquire", "refresh"])
def test_who_is_granted_it_is_known_before_it_asks(how: str, side: Side) -> None:
    """Callers that time out meanwhile are told, and `info()` says it. Guards `process` where it is granted."""
    hears(side, NAME, *([] if "refresh" in how else ["n"]))
    side.run(HELD)
    side.run(NAME.acquire(Bid("n:1", TTL, 0, ABOUT, LIVENESS, how != "transfer")))
    if how in ("acquire", "refresh"):
        expire(side, NAME)
    if "transfer" in how:
        side.run(passing("m:2"))
    elif "release" in how:
        side.run(NAME.release("m:1", TTL, 0, "clean" if "pass" in how else "dirty", False))
    elif how == "acquire":
        side.run(NAME.acquire(Bid("o:1", TTL, 0, "")))
    else:
        side.run(NAME.refresh_many([NAME.alive_of("n:1", LIVENESS, True, ABOUT)]))
    found = state(side, NAME)
    assert (found.owner, found.depth, found.process) == ("n:1", 0, PROCESS)
    assert isinstance(side.run(NAME.acquire(Bid("n:1", TTL, 0, ABOUT, LIVENESS))), Granted)
    assert state(side, NAME).process == ABOUT


def test_what_a_multi_lock_keeps_is_known_too(side: Side) -> None:
    """It was granted one, takes one that is free, and waits for the rest. Guards ARGV[4] in acquire.lua."""
    names = [Lock(f"order:{number}") for number in range(3)]
    call = MultiCalls(KEYS, [name.name for name in names]).acquire(Bid("n:+1", TTL, 0, ABOUT, LIVENESS))
    hears(side, NAME, "n")
    fences = [side.run(name.acquire(Bid("m:1", TTL, 0, "web-1:1"))).fence for name in names]  # type: ignore[union-attr]
    assert fences == sorted(fences)
    side.run(call)  # queues for the first of them
    side.run(names[0].release("m:1", TTL, 0, "clean", False))
    side.run(names[1].release("m:1", TTL, 0, "clean", False))
    assert isinstance(side.run(call), Queued)
    found = [state(side, name) for name in names[:2]]
    assert [(one.owner, one.depth, one.process) for one in found] == [("n:+1", 0, PROCESS), ("n:+1", 0, ABOUT)]
