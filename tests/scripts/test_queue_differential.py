"""The queue family's scripts, run on the same requests on a server and on a store, answer the same and leave the same;
and both keep the family's promises.

Fences: floors are above every server's time, so both sides mint the same ones; serials: so is the one that a name
starts with. Time: nothing waits. The test itself writes that a holder's or a waiter's time is over; every owner has
ttls of its own, so that the order of expiries is the same on both sides.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiolock.scripts.base import DONT_QUEUE, Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Finished
from tests.support.generated import examples
from tests.support.lua import ROOM
from tests.support.queues import (
    FAIR,
    FULL,
    RW,
    SEMAPHORE,
    SUMMARY,
    Queue,
    Shape,
    Standing,
    Summary,
    assert_sound,
    change,
    crash,
    forget,
    move,
    read,
    standing,
    summary,
)
from tests.support.scripting import GUARD, LuaSide, Refused, Seen, Side, StoreSide, gist, parts

T = TypeVar("T")

FLOOR = 2**51
OWNERS = ("a:1", "a:2", "b:1", "b:2")
NAMES = 2
UNIT = 100_000
TOLERANCE = 20_000
TIMES = ("pttl", "until")
_examples = itertools.count()


class Step(NamedTuple):
    """One thing that happens on each side: a request, or something to the keys."""

    kind: str
    name: int
    facts: tuple[Any, ...]


owners = st.sampled_from(OWNERS)
wants = st.integers(0, 2)
fences = st.sampled_from(["none", "own", "own", "older"])
floors = st.integers(FLOOR, FLOOR + 3)
longer = st.booleans()
names = st.sampled_from([0, 0, 0, 1])


def step(kind: str, *facts: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.just(kind), names, st.tuples(*facts))


about = st.sampled_from(["", "me", "ü☃ {} \n"])
waits = st.sampled_from([True, True, False])
tainted = st.sampled_from([False] * 7 + [True])
refreshes = st.tuples(names, owners, wants, st.sampled_from([0, 0, FLOOR, FLOOR + 2]))
renewals = st.tuples(names, owners, wants, fences, longer)
endings = st.sampled_from(["clean", "undone", "dirty", "declined"])
arrivals = step("acquire", owners, wants, longer, waits, floors, about, st.just(1), st.just("none"))
departures = step("release", owners, wants, st.just(0), st.just("clean"), st.just(False))
requests = st.one_of(
    step("acquire", owners, wants, longer, waits, floors, st.just(""), st.integers(1, 3), fences),
    step("enter", st.lists(refreshes, max_size=3)),
    step("release", owners, wants, st.integers(0, 2), endings, tainted),
    step("transfer", owners, wants, fences, owners, floors, tainted),
    step("renew", st.lists(renewals, max_size=3)),
    step("force_release"),
    step("set_capacity", st.sampled_from([-1, 0, 0, 1])),
    step("info", owners),
    step("again", st.integers(0, 20)),
)
mishaps = st.one_of(
    step("crash", owners),
    step("dead waiter", owners),
    step("delete", st.integers(0, 1)),
    step("unbury", owners),
    step("spoil", st.integers(0, 1)),
    step("move", st.sampled_from([-30, -5, 5, 30])),
    step("listen"),
)
kinds = st.sampled_from([arrivals] * 5 + [departures] * 2 + [requests] * 4 + [mishaps])
steps: st.SearchStrategy[Step] = kinds.flatmap(lambda kind: kind)
"""As in practice: most come and go."""


class World:
    """Both sides, on names that no other example uses."""

    def __init__(self, lua: LuaSide, shape: Shape, room: int) -> None:
        self.sides: tuple[Side, Side] = (lua, StoreSide(lua.edit))
        self.room = room
        self.shape = shape
        example = next(_examples)
        self.names = [Queue(shape, f"{example} {{{i}}}") for i in range(NAMES)]
        self.highest = [0] * NAMES
        self.spoilt: set[int] = set()
        self.sent: list[Call[Any]] = []
        self.listening = False
        for name in self.names:
            self.lose(name)

    def both(self, act: Callable[[Side], T]) -> tuple[T, T]:
        return act(self.sides[0]), act(self.sides[1])

    def lose(self, name: Queue) -> None:
        """Delete everything known of it but the serial, which would start again at each side's time."""
        self.both(lambda side: side.delete(name.hash))
        self.both(lambda side: change(side, name, serial=FLOOR + 1000 * len(self.sent)))

    def take(self, step: Step) -> None:
        before = [self.standing(i) for i in range(NAMES)]
        call, server = self.request(step), None
        if call is None:
            self.meddle(step)
        else:
            self.sent.append(call)
            server, store = self.both(lambda side: outcome(side, call))
            assert same(server, store), f"{call}: the server answers {server}, the store {store}"
        self.compare()
        for i in range(NAMES):
            if call is not None and i not in self.spoilt:
                self.check(i, before[i], self.standing(i), call)
                changes = call.script.name != "info" and not isinstance(server, Finished)  # a tombstone stops a request
                if self.room == ROOM and {*call.keys} & {*self.names[i].keys} and changes:
                    self.both(lambda side, i=i: assert_sound(side, self.names[i]))  # type: ignore[misc]

    def request(self, step: Step) -> Call[Any] | None:
        name, i = self.names[step.name], step.name
        match step.kind, step.facts:
            case "acquire", (owner, want, longer, waits, floor, about, depth, fence):
                calls, queue_number = self.calls(i, owner, want), 0 if waits else DONT_QUEUE
                facts = depth, self.fence(i, owner, fence), queue_number
                return calls.request(owner, ttl(owner, longer), floor, about, *facts)
            case "enter", (batch,):
                parts = [
                    self.calls(i, owner, want).refresh(Bid(owner, ttl(owner), FLOOR, "again", number=queue_number))
                    for i, owner, want, queue_number in batch
                ]
                return name.refresh_many(parts)
            case "release", (owner, want, left, ending, tainted):
                return self.calls(i, owner, want).release(owner, ttl(owner), left, ending, tainted)
            case "transfer", (owner, want, fence, successor, floor, tainted):
                calls, fence = self.calls(i, owner, want), self.fence(i, owner, fence)
                return calls.resume(owner, fence, Bid(successor, ttl(successor), floor, "moved"), tainted)
            case "renew", (batch,):
                parts = [
                    self.calls(i, owner, want).renewal(owner, self.fence(i, owner, fence), ttl(owner, longer))
                    for i, owner, want, fence, longer in batch
                ]
                return name.renew_many(parts)
            case "force_release", _:
                return name.force_release()
            case "set_capacity", (more,):
                more = 0 if self.shape is RW else more  # whose capacity is what a writer weighs
                return name.set_capacity(max(1, self.shape.capacity + more))
            case "info", (owner,):
                return name.info(owner)
            case "again", (back,):
                return self.sent[-1 - back % len(self.sent)] if self.sent else None
        return None

    def meddle(self, step: Step) -> None:
        name = self.names[step.name]
        match step.kind, step.facts:
            case "crash", (owner,) if owner in self.standing(step.name).holders:
                self.both(lambda side: crash(side, name, owner))
            case "dead waiter", (owner,) if owner in self.standing(step.name).waiters:
                self.both(lambda side: forget(side, name, owner))
            case "delete", (which,):
                if name.keys[which] == name.hash:
                    self.highest[step.name] = 0
                    self.lose(name)
                else:
                    self.both(lambda side: side.delete(name.order))
            case "move", (ahead,) if step.name not in self.spoilt:
                self.both(lambda side: move(side, name, ahead * UNIT))
            case "unbury", (owner,):
                self.both(lambda side: side.delete(name.dead(owner)))
            case "spoil", (which,):
                self.spoilt.add(step.name)
                self.both(lambda side: side.set(name.keys[which], "a string"))
            case "listen", _ if not self.listening:
                self.listening = True
                self.both(lambda side: side.listen(name.manager("a"), name.manager("b")))

    def calls(self, i: int, owner: str, want: int) -> Queue:
        """The requests of one owner: each has a liveness of its own."""
        want %= len(self.shape.wants)
        liveness = UNIT // 2 + UNIT * (1 + OWNERS.index(owner))
        return Queue(self.shape, self.names[i].name, want=want, liveness_ms=liveness)

    def fence(self, i: int, owner: str, which: str) -> int:
        """A fence to name in a request: that of the owner's hold, one before it, or none."""
        held = self.standing(i).holders.get(owner)
        fence = int(held.fence) if held else FLOOR
        return {"none": 0, "own": fence, "older": fence - 1}[which]

    def compare(self) -> None:
        keys = [(name, key) for name in self.names for key in (*name.keys, *map(name.dead, OWNERS))]
        server, store = self.both(lambda side: side.snapshot([key for _, key in keys]))
        for (name, key), one, other in zip(keys, server, store, strict=True):
            told = f"{key}: the server leaves {one}, the store {other}"
            assert close(one[1], other[1]), told
            assert alike(name, key, one, other), told
        if self.listening:
            said, said_ = self.both(lambda side: side.heard())
            assert said == said_, f"the server tells {said}, the store {said_}"

    def standing(self, i: int) -> Standing:
        if i in self.spoilt:
            return Standing(Summary(), {}, {}, {})
        return standing(self.sides[1], self.names[i])

    def check(self, i: int, before: Standing, after: Standing, call: Call[Any]) -> None:
        """Check what must hold after every request, whatever happened to the keys; see also `assert_sound`."""
        alone = len(after.holders) == 1 and after.holders.keys() == before.holders.keys()  # may nest with more
        most = max(after.summary.capacity, before.summary.used)
        assert alone or after.summary.used <= most, f"{after} holds more than it has"
        if self.shape is RW and any(holder.weight == FULL for holder in after.holders.values()):
            assert len(after.holders) == 1, f"{after}: a writer is not alone"
        # An owner that was alive in the line, and still is in it, was overtaken only by a hand-off.
        live = {one for one, wish in before.waiters.items() if wish.until > 1 and wish.weight <= after.summary.capacity}
        stayed = live & after.waiters.keys()
        granted = [owner for owner in after.holders if not same_hold(before, after, owner)]
        for owner in granted:
            waited = before.waiters.get(owner)
            queue_number = (waited and waited.queue_number) or old_queue_number(call, owner) or FLOOR**2
            ahead = [one for one in stayed if before.waiters[one].queue_number < queue_number]
            assert not ahead or call.script.name == "transfer", f"{owner} overtook {ahead}: {before} became {after}"
        minted = sorted(int(after.holders[owner].fence) for owner in granted if after.holders[owner].mints == "1")
        assert all(one < other for one, other in itertools.pairwise([self.highest[i], *minted]))
        self.highest[i] = max([self.highest[i], *minted])


def same_hold(before: Standing, after: Standing, owner: str) -> bool:
    return owner in before.holders and before.holders[owner].fence == after.holders[owner].fence


def old_queue_number(call: Call[Any], owner: str) -> int:
    """The number with which a forgotten waiter comes back in this request."""
    parts = [call.args[at : at + 11] for at in range(1, len(call.args), 11)] if call.script.name == "acquire" else []
    return min((int(part[8]) for part in parts if part[0] == owner and int(part[8]) > 0), default=0)


def ttl(owner: str, longer: bool = False) -> int:
    return UNIT * (1 + 2 * OWNERS.index(owner) + longer)


def outcome(side: Side, call: Call[Any]) -> object:
    try:
        return side.run(call)
    except Refused as error:
        return gist(error)


def close(one: int, other: int) -> bool:
    """For times: those from -2 to -1 mean that there is none."""
    return one == other if -2 <= min(one, other) < 0 else abs(one - other) < TOLERANCE


def alike(name: Queue, key: str, one: Seen, other: Seen) -> bool:
    """Whether both are equal, except for times of the server."""
    if one[0] is None or other[0] is None or key not in name.keys:
        return one[0] == other[0]
    if one[0].keys() != other[0].keys():
        return False
    if key == name.order:
        return all(close(int(score), int(other[0][owner])) for owner, score in one[0].items())
    if not close(*(Summary.read(seen[0]).expires for seen in (one, other))):
        return False
    return all(same(parsed(field, text), parsed(field, other[0][field])) for field, text in one[0].items())


def parsed(field: str, text: str) -> object:
    """What must be the same on both sides: moments of the name itself are compared apart from these, or not at all."""
    if field in ("expires", "shut"):
        return int(text) > 0 and field == "shut"
    return text if field in SUMMARY else read(text)


def same(one: object, other: object) -> bool:
    """Whether both are equal, except for the rest of a ttl."""
    if type(one) is not type(other):
        return False
    if (mine := parts(one)) is not None and (yours := parts(other)) is not None:
        pairs = zip(mine, yours, strict=False)
        alike = (close(a, b) if at in TIMES else same(a, b) for (at, a), (_, b) in pairs)  # type: ignore[arg-type]
        return len(mine) == len(yours) and all(alike)
    return one == other


@pytest.mark.parametrize("shape", [FAIR, SEMAPHORE, RW], ids=lambda shape: shape.kind)
@examples(20)
@given(sequence=st.lists(steps, min_size=12, max_size=30))
def test_the_store_does_what_a_server_does(sides: Callable[[], LuaSide], shape: Shape, sequence: list[Step]) -> None:
    world = World(sides(), shape, ROOM)
    for step in sequence:
        world.take(step)


crowds = st.sampled_from([arrivals] * 6 + [departures, requests] + [step("crash", owners)] * 2).flatmap(
    lambda kind: kind
)
"""More is to do at once: the time of all holders is over."""


@examples(10)
@given(sequence=st.lists(crowds, min_size=12, max_size=30))
def test_it_also_does_if_one_request_is_not_enough(sides: Callable[[], LuaSide], sequence: list[Step]) -> None:
    """Scripts let in or end only one at a time. When the following requests have done the rest, everything is as it
    must be.
    """

    def narrow(lua: str) -> str:
        edited = lua.replace(f"local room = {ROOM}", "local room = 1")
        assert edited != lua
        return GUARD + edited

    world = World(sides().edited(narrow), SEMAPHORE, 1)
    world.take(Step("listen", 0, ()))
    for step in sequence:
        for owner in OWNERS if step.kind == "crash" else [""]:
            world.take(step._replace(facts=(owner,)) if owner else step)
    for i in {0, 1} - world.spoilt:
        name = world.names[i]
        for _ in OWNERS:  # each may be one that must be let in or ended
            world.both(lambda side, name=name: side.run(name.renew_many([name.renewal("z:9", 1, 1)])))  # type: ignore[misc]
        if not summary(world.sides[1], name).shut:
            world.both(lambda side, name=name: assert_sound(side, name))  # type: ignore[misc]
