"""The multi lock's scripts, mixed with the plain lock's on the same names, do the same on a server and on a store."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from hypothesis import example, given
from hypothesis import strategies as st

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import renew as renew_plain
from aiolock.scripts.multi import renew
from aiolock.scripts.outcomes import Granted, Queued
from tests.support.generated import Step, examples, step
from tests.support.lock_calls import Sign, State, put, state
from tests.support.multi import Multi, Name, refreshes, waiting
from tests.support.scripting import KEYS, LuaSide, Refused, Side, StoreSide, gist, parts

T = TypeVar("T")

FLOOR = 2**51
"""Above every clock, so that fences are the same on both sides."""
UNIT = 100_000
TOLERANCE = 20_000
LISTENING = ("m", "n")
MULTIS = ("m:+1", "n:+1", "o:+1")
PLAINS = ("m:1", "n:1", "n:f2", "o:1")
SETS = ((0, 1), (1, 2), (0, 1, 2), (1,))
_examples = itertools.count()


names = st.integers(0, 2)
sets = st.sampled_from(SETS)
multis = st.sampled_from(MULTIS)
plains = st.sampled_from(PLAINS)
longer = st.booleans()
endings = st.sampled_from(["clean", "undone", "dirty"])
tainted = st.sampled_from([False] * 7 + [True])
about = st.sampled_from(["", "me", "ü☃ {} \n %d"])
arrivals = st.one_of(
    step("ask", sets, multis, st.just(True), st.booleans(), longer, about),
    step("acquire", names, plains, st.just(True), longer),
)
departures = st.one_of(
    step("release", sets, multis, st.just(0), st.just("clean"), st.just(False)),
    step("end", names, plains, st.just(0), st.just("clean"), st.just(False)),
)
requests = st.one_of(
    step("ask", sets, multis, st.just(False), st.booleans(), longer, about),
    step("release", sets, multis, st.integers(0, 2), endings, tainted),
    step("give back", sets, multis, st.integers(0, 2)),
    step("nest", sets, multis, longer, st.integers(1, 3)),
    step("renew", st.lists(st.tuples(sets, multis, longer), max_size=3)),
    step("info", sets),
    step("acquire", names, plains, st.just(False), longer),
    step("end", names, plains, st.integers(0, 1), endings, tainted),
    step("transfer", names, st.sampled_from(["m:7", "n:7", "n:f8"]), st.integers(0, 1)),
    step("refresh", st.lists(st.tuples(names, st.sampled_from(MULTIS + PLAINS)), min_size=1, max_size=3)),
    step("confirm", names, plains),
    step("force release", names),
    step("again", st.integers(0, 12)),
)
mishaps = st.one_of(
    step("expire", names),
    step("dead", names, st.sampled_from(["m", "n", "o"])),
    step("forget", names),
    step("unbury", multis),
)
kinds = st.sampled_from([arrivals] * 5 + [departures] * 2 + [requests] * 4 + [mishaps])
steps: st.SearchStrategy[Step] = kinds.flatmap(lambda kind: kind)


class World:
    """Both sides, on names that no other example uses."""

    def __init__(self, lua: LuaSide) -> None:
        self.sides: tuple[Side, Side] = (lua, StoreSide())
        example = next(_examples)
        self.names = [Name(f"multi {example} {{{i}}}") for i in range(3)]
        self.numbers: dict[tuple[Side, str], int] = {}
        self.sent: list[Callable[[Side], Call[Any]]] = []
        self.highest = [FLOOR] * 3
        for name in self.names:
            self.both(lambda side, name=name: put(side, name, State("", FLOOR, 0, 0, "0", 0, "")))  # type: ignore[misc]
        self.both(lambda side: side.listen(*map(KEYS.manager, LISTENING)))

    def both(self, act: Callable[[Side], T]) -> tuple[T, T]:
        return act(self.sides[0]), act(self.sides[1])

    def take(self, step: Step) -> None:
        request = self.request(step)
        if request is None:
            self.meddle(step)
            self.compare()
            return
        self.sent.append(request)
        held = [state(self.sides[1], name).expires > 1 for name in self.names]
        server, store = self.both(lambda side: self.outcome(side, request))
        call = request(self.sides[1])
        assert same(server, store), f"{call} {call.args}: the server answers {server}, the store {store}"
        said, said_ = self.both(lambda side: side.heard())
        assert said == said_, f"{call} {call.args}: the server tells {said}, the store {said_}"
        self.compare()
        self.check(call, store, held)

    def outcome(self, side: Side, request: Callable[[Side], Call[Any]]) -> object:
        call = request(side)
        try:
            outcome = side.run(call)
        except Refused as error:
            return gist(error)
        if isinstance(outcome, Queued) and outcome.queue_number:
            self.numbers[side, str(call.args[0])] = outcome.queue_number
        return outcome

    def request(self, step: Step) -> Callable[[Side], Call[Any]] | None:
        """Return the request for a side: numbers in queues are times of each side."""
        match step.kind, step.facts:
            case "ask", (which, owner, waits, known, longer, about):
                liveness = liveness_of(owner) if waits else 0
                bid = Bid(owner, ttl(owner, longer), FLOOR, about, liveness)
                return lambda side: self.multi(which).acquire(
                    bid._replace(number=self.numbers.get((side, owner), 0) if known else 0)
                )
            case "release", (which, owner, left, ending, tainted):
                return always(self.multi(which).release(owner, ttl(owner), left, ending, tainted))
            case "give back", (which, owner, keep):
                chosen = self.names[which[keep % len(which)]].name
                return always(self.multi(which).give_back(owner, ttl(owner), chosen))
            case "nest", (which, owner, longer, depth):
                return always(self.multi(which).nest(owner, self.fence(which[0]), ttl(owner, longer), depth))
            case "renew", (batch,):
                return always(
                    renew(
                        self.multi(which).renewal(owner, self.fence(which[0]), ttl(owner, longer))
                        for which, owner, longer in batch
                    )
                )
            case "info", (which,):
                return always(self.multi(which).info())
            case "again", (back,):
                return self.sent[-1 - back % len(self.sent)] if self.sent else always(self.multi((0,)).info())
        return self.plain_request(step)

    def plain_request(self, step: Step) -> Callable[[Side], Call[Any]] | None:
        match step.kind, step.facts:
            case "acquire", (i, owner, waits, longer):
                liveness = liveness_of(owner) if waits else 0
                return always(self.names[i].acquire(Bid(owner, ttl(owner, longer), FLOOR, "they", liveness)))
            case "end", (i, owner, left, ending, tainted):
                return always(self.names[i].release(owner, ttl(owner), left, ending, tainted))
            case "transfer", (i, successor, over):
                holder = state(self.sides[1], self.names[i]).owner
                bid = Bid(successor, ttl(successor), FLOOR, "moved", liveness_of(successor))
                return always(self.names[i].transfer(holder, self.fence(i), bid, over == 1, False))
            case "refresh", (batch,):
                return always(refreshes([(self.names[i], owner, liveness_of(owner)) for i, owner in batch]))
            case "confirm", (i, owner):
                return always(renew_plain([self.names[i].renewal(owner, self.fence(i), ttl(owner))]))
            case "force release", (i,):
                return always(self.names[i].force_release())
        return None

    def meddle(self, step: Step) -> None:
        match step.kind, step.facts:
            case "expire", (i,):
                name = self.names[i]
                self.both(lambda side: put(side, name, state(side, name)._replace(expires=0)))
            case "dead", (i, manager):
                name = self.names[i]
                if manager in self.sides[1].hash(name.alive):
                    self.both(lambda side: side.hset(name.alive, {manager: "1+"}))
            case "forget", (i,):
                self.both(lambda side: side.delete(self.names[i].queue))
            case "unbury", (owner,):
                self.both(lambda side: side.delete(*(name.dead(owner) for name in self.names)))

    def multi(self, which: tuple[int, ...]) -> Multi:
        return Multi(*(self.names[i] for i in which))

    def fence(self, i: int) -> int:
        return state(self.sides[1], self.names[i]).fence

    def compare(self) -> None:
        server, store = self.both(self.look)
        for name, one, other in zip(self.names, server, store, strict=True):
            assert same(one, other), f"{name.name}: the server leaves {one}, the store {other}"

    def look(self, side: Side) -> list[Look]:
        tombs = [name.dead(owner) for name in self.names for owner in MULTIS]
        dead = [pttl for _, pttl in side.snapshot(tombs)]
        seen = side.snapshot([key for name in self.names for key in name.keys])
        looks = []
        for i, name in enumerate(self.names):
            found = state(side, name)
            known = found.before if found.before >= FLOOR else 0  # otherwise a number in the queue, a time of each side
            hidden = found._replace(before=known)
            _, (queue, _), (alive, _) = parts = seen[3 * i : 3 * i + 3]
            signs = {manager: Sign.read(known) for manager, known in sorted((alive or {}).items())}
            lasting = [pttl for _, pttl in parts] + dead[3 * i : 3 * i + 3]
            looks.append(Look(hidden, list(queue or {}), list(signs), list(signs.values()), lasting))
        return looks

    def check(self, call: Call[Any], outcome: object, held: list[bool]) -> None:
        """Check what must hold after every request."""
        side = self.sides[1]
        now = side.store.wall_us() // 1000  # type: ignore[attr-defined]
        for i, name in enumerate(self.names):
            found = state(side, name)
            assert found.fence >= self.highest[i]
            self.highest[i] = found.fence
            assert found.owner not in waiting(side, name) or ":+" not in found.owner
            assert all(side.pttl(key) != -1 for key in name.keys)
            if held[i] and call.script.name in ("release", "transfer", "force_release"):
                assert found.expires > now or not self.heard_of(name, now), f"{name.name} was left free"
        if call.name.count("+") and call.script.name == "acquire" and isinstance(outcome, Granted):
            got = [state(side, name) for name in self.names if name.state in call.keys]
            assert {(one.owner, one.fence) for one in got} == {(call.args[0], outcome.fence)}
            assert all(one.depth for one in got)
            assert all(call.args[0] not in waiting(side, name) for name in self.names if name.state in call.keys)

    def heard_of(self, name: Name, now: int) -> list[str]:
        """The waiters that live and hear."""
        alive = self.sides[1].hash(name.alive)
        managers = [entry.partition(":")[0] for entry in waiting(self.sides[1], name)]
        return [one for one in managers if one in LISTENING and Sign.read(alive.get(one, "0")).until > now]


class Look(NamedTuple):
    """What is left of a name."""

    state: State
    queue: list[str]
    managers: list[str]
    signs: list[Sign]
    lasting: list[int]


def always(call: Call[Any]) -> Callable[[Side], Call[Any]]:
    return lambda _: call


def liveness_of(owner: str) -> int:
    return UNIT // 2 + UNIT * "mno".index(owner[0])


def ttl(owner: str, longer: bool = False) -> int:
    return UNIT * (4 + 2 * "mno".index(owner[0]) + longer)


TIMES = ("pttl", "expires", "until", "lasting", "queue_number")


def same(one: object, other: object, times: bool = False) -> bool:
    """Whether both are equal, except for times of the server."""
    if type(one) is not type(other):
        return False
    if (mine := parts(one)) is not None and (yours := parts(other)) is not None:
        pairs = zip(mine, yours, strict=False)
        return len(mine) == len(yours) and all(same(a, b, times or at in TIMES) for (at, a), (_, b) in pairs)
    if times and isinstance(one, int) and isinstance(other, int) and min(one, other) >= 0:
        return abs(one - other) < (TOLERANCE if max(one, other) < 10**14 else TOLERANCE * 1000)
    return one == other


M, N = MULTIS[:2]
HELD = [Step("acquire", (0, "o:1", True, False)), Step("acquire", (1, "n:1", True, False))]
ASK = Step("ask", ((0, 1, 2), M, True, False, False, "me"))
KNOWN = Step("ask", ((0, 1, 2), M, True, True, False, "me"))
OTHER = Step("ask", ((1, 2), N, True, False, False, "me"))
END = [Step("end", (i, owner, 0, "clean", False)) for i, owner in ((0, "o:1"), (1, "n:1"))]


@examples(25)
@given(sequence=st.lists(steps, min_size=8, max_size=30))
@example(sequence=[*HELD, ASK, END[0], ASK, END[1], KNOWN, Step("again", (0,))])
@example(sequence=[*HELD, ASK, OTHER, END[1], OTHER, END[0], KNOWN, OTHER])
@example(sequence=[*HELD, ASK, END[0], KNOWN, Step("give back", ((0, 1, 2), M, 1)), END[1], KNOWN])
@example(sequence=[ASK, Step("expire", (1,)), ASK, Step("release", ((0, 1, 2), M, 0, "dirty", True)), ASK])
def test_the_store_does_what_a_server_does(sides: Callable[[], LuaSide], sequence: list[Step]) -> None:
    world = World(sides())
    for each in sequence:
        world.take(each)
    assert world.sides[1].exists(world.names[0].state)
