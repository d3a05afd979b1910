"""The Lua and its twin, run on the same requests, answer the same and leave the same.

Fences: the floors are above every server's time, so both sides mint the same ones. Time: nothing waits, ttls lie far
apart, and what is left of them is compared with a tolerance; that a key's time is over is the same as its deletion.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aiolock.scripts.base import Call
from aiolock.scripts.lock import confirm, renew
from aiolock.scripts.outcomes import Granted
from tests.support.scripting import Lock, LuaSide, Refused, Side, TwinSide

T = TypeVar("T")

FLOOR = 2**51
OWNERS = ("a:1", "a:2", "b:1")
NAMES = 2
TTLS = (100_000, 200_000, 400_000)
TOLERANCE = 20_000
_examples = itertools.count()


class Step(NamedTuple):
    """One thing that happens on each side: a request, or something to the keys."""

    kind: str
    name: int
    facts: tuple[Any, ...]


owners = st.sampled_from(OWNERS)
ttls = st.sampled_from(TTLS)
floors = st.integers(FLOOR, FLOOR + 3)
fences = st.sampled_from(["none", "current", "older"])
metadata = st.sampled_from(["", "me", "ü☃ {}"])
depths = st.integers(1, 3)
marks = st.sampled_from([0, *TTLS])


def step(kind: str, *facts: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.just(kind), st.integers(0, NAMES - 1), st.tuples(*facts))


renewals = st.lists(st.tuples(st.integers(0, NAMES - 1), owners, fences, ttls), max_size=3)
steps = st.one_of(
    step("acquire", owners, ttls, floors, metadata, depths, fences, marks),
    step("acquire", owners, ttls, floors, metadata, st.just(1), st.just("none"), marks),
    step("release", owners, ttls, st.integers(0, 2), st.sampled_from(["clean", "undone", "dirty"]), st.booleans()),
    step("transfer", owners, fences, owners, ttls, floors, metadata, st.booleans()),
    step("renew", renewals),
    step("confirm", owners, fences, st.integers(-2, 2)),
    step("force_release", fences),
    step("info"),
    step("again", st.integers(0, 20)),
    step("delete", st.sampled_from(["key", "state", "dead", "all"])),
    step("listen"),
    step("spoil", st.sampled_from(["key", "state"])),
)


class World:
    """Both sides, on locks that no other example uses."""

    def __init__(self, lua: LuaSide) -> None:
        self.sides: tuple[Side, Side] = (lua, TwinSide())
        example = next(_examples)
        self.locks = [Lock(f"{example} {{{i}}}") for i in range(NAMES)]
        self.sent: list[Call[Any]] = []
        self.listening = False

    def both(self, act: Callable[[Side], T]) -> tuple[T, T]:
        return act(self.sides[0]), act(self.sides[1])

    def take(self, step: Step) -> None:
        lock = self.locks[step.name]
        call = self.request(step, lock)
        if call is None:
            self.meddle(step, lock)
            return
        self.sent.append(call)
        lua, twin = self.both(lambda side: outcome(side, call))
        assert same(lua, twin), f"{call}: the Lua answers {lua}, its twin {twin}"

    def request(self, step: Step, lock: Lock) -> Call[Any] | None:
        match step.kind, step.facts:
            case "acquire", (owner, ttl, floor, about, depth, fence, mark):
                return lock.acquire(owner, ttl, floor, about, depth, self.fence(lock, fence), mark_ms=mark)
            case "release", (owner, ttl, left, ending, tainted):
                return lock.release(owner, ttl, left, ending, tainted)
            case "transfer", (owner, fence, successor, ttl, floor, about, tainted):
                return lock.transfer(owner, self.fence(lock, fence), successor, ttl, floor, about, tainted)
            case "renew", (batch,):
                locks = [self.locks[name] for name, *_ in batch]
                return renew(
                    lock.renewal(owner, self.fence(lock, fence), ttl)
                    for lock, (_, owner, fence, ttl) in zip(locks, batch, strict=True)
                )
            case "confirm", (owner, fence, more):
                minted = self.fence(lock, fence)
                return confirm(lock.acquire(owner, TTLS[0], 0, ""), minted, max(0, minted + more))
            case "force_release", (fence,):
                return lock.force_release(self.fence(lock, fence))
            case "info", _:
                return lock.info()
            case "again", (back,):
                return self.sent[-1 - back % len(self.sent)] if self.sent else None
        return None

    def meddle(self, step: Step, lock: Lock) -> None:
        match step.kind, step.facts:
            case "delete", (what,):
                dead = [lock.dead(owner) for owner in OWNERS]
                keys = {"key": [lock.key], "state": [lock.state], "dead": dead, "all": [lock.key, lock.state, *dead]}
                self.both(lambda side: side.delete(*keys[what]))
            case "spoil", (what,):
                self.both(lambda side: side.set(lock.key if what == "key" else lock.state, "a string"))
            case "listen", _:
                if not self.listening:
                    self.listening = True
                    channels = [*(lock.channels[0] for lock in self.locks), lock.manager("a"), lock.manager("b")]
                    self.both(lambda side: side.listen(*channels))

    def fence(self, lock: Lock, which: str) -> int:
        """A fence to name in a request: of the last grant, an older one, or none."""
        ((state, _),) = self.sides[1].snapshot([lock.state])
        stored = int((state or {}).get("fence", "0"))
        return {"none": 0, "current": stored, "older": max(0, stored - 1)}[which]

    def compare(self) -> None:
        keys = [key for lock in self.locks for key in (lock.key, lock.state, lock.polled, *map(lock.dead, OWNERS))]
        lua, twin = self.both(lambda side: side.snapshot(keys))
        for key, (content, pttl), (content_, pttl_) in zip(keys, lua, twin, strict=True):
            assert content == content_, f"{key}: the Lua leaves {content}, its twin {content_}"
            assert close(pttl, pttl_), f"{key}: the Lua leaves {pttl} ms, its twin {pttl_}"
        if self.listening:
            said, said_ = self.both(lambda side: side.heard())
            assert said == said_, f"the Lua tells {said}, its twin {said_}"


def outcome(side: Side, call: Call[Any]) -> object:
    try:
        return side.run(call)
    except Refused as error:
        return str(error)[:9]


def close(one: int, other: int) -> bool:
    return one == other if min(one, other) < 0 else abs(one - other) < TOLERANCE


def same(one: object, other: object) -> bool:
    """Equal, but for what is left of a ttl."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Granted) and isinstance(other, Granted):
        one, other, marks = one._replace(mark=0), other._replace(mark=0), (one.mark, other.mark)
        if not close(*marks):
            return False
    if hasattr(one, "pttl") and hasattr(other, "pttl"):
        return close(one.pttl, other.pttl) and one._replace(pttl=0) == other._replace(pttl=0)  # type: ignore[attr-defined]
    return one == other


GRANT = Step("acquire", 0, ("a:1", TTLS[1], FLOOR, "me", 1, "none", 0))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sequence=st.lists(steps, min_size=1, max_size=25))
@example(sequence=[GRANT, Step("release", 0, ("a:1", TTLS[0], 0, "clean", True)), GRANT])
@example(sequence=[GRANT, Step("transfer", 0, ("a:1", "current", "a:2", TTLS[0], FLOOR, "", True)), GRANT])
def test_the_lua_does_what_its_twin_does(sides: Callable[[], LuaSide], sequence: list[Step]) -> None:
    world = World(sides())
    for step in sequence:
        world.take(step)
        world.compare()
