"""The lock's scripts, run on the same requests on a server and on a store, answer the same and leave the same; and both
keep the promises of a queue.

Fences: floors are above every server's time, and so is the fence that a name starts with, so both sides mint the same
ones. Time: nothing waits. The test itself writes that a holder's or a manager's time is over.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from hypothesis import example, given
from hypothesis import strategies as st

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import confirm, renew
from aiolock.scripts.outcomes import Granted, Passed, Queued
from tests.support.generated import examples
from tests.support.lock_calls import Lock, Sign, State, change, expire, forget, lasting, put, signs, state, waiters
from tests.support.scripting import LONG_MS, LuaSide, Refused, Side, StoreSide, gist

T = TypeVar("T")

FLOOR = 2**51
OWNERS = ("a:1", "a:2", "a:f3", "b:1", "b:f2~60000", "c:1", "d:1", "d:f2")
LIVENESS = {"a": 100_000, "b": 200_000, "c": 300_000, "d": 400_000}
HEARS = "ab"
"""Managers that listen; `c` says so but does not, `d` polls."""
NAMES = 2
UNIT = 100_000
TOLERANCE = 20_000
_examples = itertools.count()


class Step(NamedTuple):
    """One thing that happens on each side: a request, or something to the keys."""

    kind: str
    name: int
    facts: tuple[Any, ...]


owners = st.sampled_from(OWNERS)
fences = st.sampled_from(["own", "own", "own", "older", "none"])
floors = st.integers(FLOOR, FLOOR + 3)
longer = st.booleans()
names = st.sampled_from([0, 0, 0, 1])
tainted = st.sampled_from([False] * 7 + [True])
endings = st.sampled_from(["clean", "clean", "undone", "dirty", "declined"])
about = st.sampled_from(["", "me", "ü☃ {} \n x\0y"])
known = st.sampled_from([0, 0, 0, 1000, 2000])
"""The number that a waiter had in the queue; it goes before those that get one now."""


def step(kind: str, *facts: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.just(kind), names, st.tuples(*facts))


arrivals = step("acquire", owners, longer, floors, about, st.sampled_from(["no", "say", "say", "said"]), known)
departures = step("release", st.just(""), longer, st.just(0), endings, tainted)
turns = step("transfer", st.just(""), st.just("own"), owners, floors, st.booleans(), tainted)
requests = st.one_of(
    step("release", owners, longer, st.integers(0, 2), endings, tainted),
    step("transfer", owners, fences, owners, floors, st.booleans(), tainted),
    step("resume", owners, fences, owners, floors, tainted),
    step("nest", owners, fences, longer, st.integers(1, 3)),
    step("refresh", st.lists(st.tuples(names, owners), max_size=3)),
    step("renew", st.lists(st.tuples(names, owners, fences, st.booleans()), max_size=3)),
    step("confirm", owners, fences, st.integers(-2, 2)),
    step("force_release", fences),
    step("request_release", st.just("") | owners),
    step("info", owners),
    step("again", st.integers(0, 20)),
)
mishaps = st.one_of(
    step("expire"),
    step("expire"),
    step("die", st.sampled_from(sorted(LIVENESS))),
    step("delete", st.integers(0, 2)),
    step("unbury", owners),
    step("spoil", st.integers(0, 2)),
)
kinds = st.sampled_from([arrivals] * 5 + [departures] * 3 + [turns] * 3 + [requests] * 4 + [mishaps])
steps: st.SearchStrategy[Step] = kinds.flatmap(lambda kind: kind)
"""As in practice: most come and go."""


class Standing(NamedTuple):
    """A name, as one side has it."""

    state: State
    line: list[str]
    alive: dict[str, Sign]

    def lives(self, owner: str) -> bool:
        return owner[0] in self.alive and self.alive[owner[0]].until > UNIT  # what is dead was written as dead

    def hears(self, owner: str) -> bool:
        return owner[0] in HEARS or not self.alive[owner[0]].counted


class World:
    """Both sides, on names that no other example uses."""

    def __init__(self, lua: LuaSide) -> None:
        self.sides: tuple[Side, Side] = (lua, StoreSide())
        example = next(_examples)
        self.names = [Lock(f"{example} {{{i}}}") for i in range(NAMES)]
        self.spoilt: set[int] = set()
        self.sent: list[Call[Any]] = []
        self.both(lambda side: side.listen(*(self.names[0].manager(manager) for manager in HEARS)))
        for name in self.names:
            self.lose(name)

    def both(self, act: Callable[[Side], T]) -> tuple[T, T]:
        return act(self.sides[0]), act(self.sides[1])

    def lose(self, name: Lock) -> None:
        """Delete everything known of it but a fence, which would start again at each side's time."""
        fresh = State("", FLOOR + 1000 * (len(self.sent) + 1), FLOOR, 0, "0", 0, "")
        self.both(lambda side: put(side, name, fresh))

    def take(self, step: Step) -> None:
        before = [self.standing(i) for i in range(NAMES)]
        call = self.request(step, before[step.name])
        if call is None:
            self.meddle(step)
        else:
            self.sent.append(call)
            server, store = self.both(lambda side: outcome(side, call))
            assert same(server, store), f"{call.args}: the server answers {server}, the store {store}"
        self.compare()
        if call is not None:
            for i in {0, 1} - self.spoilt:
                self.check(before[i], self.standing(i), call)
                self.both(lambda side, i=i: lasting(side, self.names[i]))  # type: ignore[misc]

    def request(self, step: Step, now: Standing) -> Call[Any] | None:
        name = self.names[step.name]
        match step.kind, step.facts:
            case "acquire", (owner, longer, floor, about, queues, known):
                liveness = {"no": 0, "say": LIVENESS[owner[0]], "said": -1}[queues]
                return name.acquire(Bid(owner, ttl(owner, longer), floor, about, liveness, owner[0] != "d", known))
            case "release", (owner, longer, left, ending, tainted):
                owner = owner or now.state.owner or "a:1"
                channel = name.manager("a") if longer else ""
                return name.release(owner, ttl(owner, False), left, ending, tainted, channel)
            case "transfer" | "resume", (_, _, successor, *_) if ":f" not in successor and successor in now.line:
                return None  # such a successor is new
            case "transfer", (owner, fence, successor, floor, over, tainted):
                owner = owner or now.state.owner or "a:1"
                fence, counted = self.fence(now, fence), successor[0] != "d"
                bid = Bid(successor, ttl(successor, False), floor, "moved", LIVENESS[successor[0]], counted)
                return name.transfer(owner, fence, bid, over, tainted)
            case "resume", (owner, fence, successor, floor, tainted):
                return name.resume(
                    owner, self.fence(now, fence), Bid(successor, ttl(successor, True), floor, "moved"), tainted
                )
            case "nest", (owner, fence, longer, depth):
                return name.nest(owner, self.fence(now, fence), ttl(owner, longer), depth)
            case "refresh", (batch,):
                return name.refresh_many(
                    self.names[i].alive_of(owner, LIVENESS[owner[0]], owner[0] != "d") for i, owner in batch
                )
            case "renew", (batch,):
                return renew(
                    self.names[i].renewal(owner, self.fence(self.standing(i), fence), 0 if looks else ttl(owner, True))
                    for i, owner, fence, looks in batch
                )
            case "confirm", (owner, fence, more):
                minted = self.fence(now, fence)
                return confirm(name.acquire(Bid(owner, UNIT, 0, "")), minted, max(0, minted + more))
            case "force_release", (fence,):
                return name.force_release(self.fence(now, fence))
            case "request_release", (owner,):
                return name.request_release(owner)
            case "info", (owner,):
                return name.info(owner)
            case "again", (back,):
                return self.sent[-1 - back % len(self.sent)] if self.sent else None
        return None

    def meddle(self, step: Step) -> None:
        name, now = self.names[step.name], self.standing(step.name)
        match step.kind, step.facts:
            case "expire", _ if now.state.owner != "":
                self.both(lambda side: expire(side, name))
            case "die", (manager,) if manager in now.alive:
                self.both(lambda side: forget(side, name, manager))
            case "delete", (which,) if step.name not in self.spoilt:
                self.lose(name) if which == 0 else self.both(lambda side: side.delete(name.keys[which]))
            case "unbury", (owner,):
                self.both(lambda side: side.delete(name.dead(owner)))
            case "spoil", (which,):
                self.spoilt.add(step.name)
                self.both(lambda side: side.delete(name.keys[which]))
                if which == 0:
                    self.both(lambda side: side.hset(name.state, {"of": "another"}))
                else:
                    self.both(lambda side: side.set(name.keys[which], "a string"))

    def fence(self, now: Standing, which: str) -> int:
        return {"none": 0, "own": now.state.fence, "older": now.state.fence - 1}[which]

    def standing(self, i: int, at: int = 1) -> Standing:
        side, name = self.sides[at], self.names[i]
        if i in self.spoilt:
            return Standing(State(), [], {})
        return Standing(state(side, name), waiters(side, name), signs(side, name))

    def compare(self) -> None:
        for i, name in enumerate(self.names):
            server, store = self.standing(i, 0), self.standing(i, 1)
            told = f"the server leaves {server}, the store {store}"
            assert server.line == store.line, told
            assert close(server.state.expires, store.state.expires), told
            assert close(server.state.before // 1000, store.state.before // 1000), told  # may be a number in the queue
            times = {"expires": server.state.expires, "before": server.state.before}
            assert server.state == State(**{**store.state._asdict(), **times}), told
            assert server.alive.keys() == store.alive.keys(), told
            for manager, known in server.alive.items():
                other = store.alive[manager]
                assert close(known.until, other.until), told
                assert known[1:] == other[1:], told
            keys = (*name.keys, *map(name.dead, OWNERS))
            for key in keys:
                one, other_ = self.both(lambda side, key=key: side.pttl(key))  # type: ignore[misc]
                assert close(one, other_), f"{key}: the server leaves {one} ms, the store {other_}"
        said, said_ = self.both(lambda side: side.heard())
        assert said == said_, f"the server tells {said}, the store {said_}"

    def check(self, before: Standing, after: Standing, call: Call[Any]) -> None:
        """Check what must hold after every request, whatever happened to the keys."""
        told = f"{call.args}: {before} became {after}"
        holder, held, kind = after.state.owner, before.state, call.script.name
        assert after.state.fence >= held.fence or kind == "confirm", told
        if held.owner != "" and before.state.live:
            left = kind in ("release", "transfer", "force_release") and after.state.owner != held.owner
            assert left or holder == held.owner, f"no one takes it from its holder: {told}"
        if holder in ("", held.owner):
            ended = held.owner != "" and holder == "" and kind in ("release", "transfer", "force_release")
            assert not ended or not any(after.lives(one) and after.hears(one) for one in after.line), told
            return
        assert after.state.fence > held.fence, told
        assert holder not in after.line or kind == "transfer", told
        asks = kind in ("acquire", "transfer", "refresh") and holder in call.args
        # The request itself may say that the owner's process lives.
        lives = before.lives(holder) or after.lives(holder)
        assert asks or (holder in before.line and lives), f"granted to an owner that does not wait: {told}"
        goes_on = kind == "transfer" and call.args[6] != 1
        stayed = [one for one in before.line if one in after.line and before.lives(one) and after.hears(one)]
        ahead = stayed[: stayed.index(holder)] if holder in stayed else stayed
        if holder in before.line:
            ahead = [one for one in ahead if before.line.index(one) < before.line.index(holder)]
        returns = kind == "acquire" and holder in call.args and call.args[4].count(" ") == 3
        assert not ahead or goes_on or returns, f"{holder} overtook {ahead}: {told}"


def ttl(owner: str, longer: bool) -> int:
    return UNIT * (1 + 2 * (OWNERS.index(owner) if owner in OWNERS else 0) + longer)


def outcome(side: Side, call: Call[Any]) -> object:
    try:
        return side.run(call)
    except Refused as error:
        return gist(error)


def close(one: int, other: int) -> bool:
    """For times: small ones mean that there is none."""
    return one == other if min(one, other) < 2 else abs(one - other) < TOLERANCE


def timeless(outcome: Any) -> Any:
    """What it says beside the time left, and the number of one that has just come."""
    if isinstance(outcome, Granted):
        return replace(outcome, pttl=0)
    outcome = outcome._replace(pttl=0)
    return (
        outcome._replace(queue_number=min(outcome.queue_number, 10_000))
        if isinstance(outcome, Queued | Passed)
        else outcome
    )


def same(one: object, other: object) -> bool:
    """Whether both are equal, except the rest of a ttl, and what servers add to an error."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "error") and hasattr(other, "error"):
        return gist(one.error) == gist(other.error)  # type: ignore[no-any-return]
    if hasattr(one, "held") and hasattr(other, "held"):
        return same(one.held, other.held) and one._replace(held=None) == other._replace(held=None)  # type: ignore[attr-defined]
    if hasattr(one, "pttl") and hasattr(other, "pttl"):
        return close(one.pttl, other.pttl) and timeless(one) == timeless(other)
    return one == other


ASK = Step("acquire", 0, ("a:1", False, FLOOR, "me", "say", 0))
WAIT = Step("acquire", 0, ("b:1", False, FLOOR, "", "say", 0))


@examples(20)
@given(sequence=st.lists(steps, min_size=8, max_size=25))
@example(sequence=[ASK, WAIT, Step("transfer", 0, ("", "own", "a:2", FLOOR, True, False)), Step("again", 0, (0,))])
@example(sequence=[ASK, WAIT, Step("release", 0, ("a:1", False, 0, "clean", True)), ASK, Step("expire", 0, ()), ASK])
def test_the_store_does_what_a_server_does(sides: Callable[[], LuaSide], sequence: list[Step]) -> None:
    world = World(sides())
    for step in sequence:
        world.take(step)


def test_the_checks_see_what_is_wrong(sides: Callable[[], LuaSide]) -> None:
    """Guards `check` itself: a state that was changed from outside is not what a request leaves."""
    world = World(sides())
    world.take(ASK)
    before = world.standing(0)
    world.both(lambda side: change(side, world.names[0], owner="b:1"))
    try:
        world.check(before, world.standing(0), world.sent[-1])
    except AssertionError:
        return
    raise AssertionError("a hold that was taken from who had it was not seen", LONG_MS)
