"""The latch's scripts keep the promises of their headers, on a server and on a store, and denials are harmless."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import redis
from hypothesis import example, given
from hypothesis import strategies as st

from aiolock.scripts.base import Call
from aiolock.scripts.keys import Keys
from aiolock.scripts.latch import SCRIPTS, LatchCalls, LatchState
from aiolock.testing.server import RedisServer
from tests.support import acl, redis_cli
from tests.support.generated import examples
from tests.support.scripting import LuaSide, Refused, Side, StoreSide, gist

TTL = 300_000
SLACK = 20_000
KEYS = Keys("aiolock")
KEY = KEYS.of("latch", "n").lock
ALPHA = LatchCalls(KEYS, "n", 2, TTL)
"""The requests of a client that says 2."""
BETA = LatchCalls(KEYS, "n", 5, TTL // 2)
"""And of one that says 5, with a shorter ttl."""
DENIAL = re.compile("NOPERM|ACL failure|can't run this command")


# What the headers promise.


def commands(scripts: tuple[Any, ...]) -> set[str]:
    return set(re.findall(r"redis\.p?call\('(\w+)'", "".join(script.lua for script in scripts)))


def test_counts_down_and_opens(side: Side) -> None:
    side.listen(ALPHA.free_channel)
    assert side.run(ALPHA.query()) == LatchState(2, 2)
    assert side.run(ALPHA.count_down("m:1")) == LatchState(1, 2)
    assert side.hash(KEY) == {"version": "0.3", "left": "1", "total": "2", "m:1": "1"}
    assert side.heard() == []
    assert side.run(ALPHA.count_down("m:2")) == LatchState(0, 2)
    assert side.heard() == [(ALPHA.free_channel, "open")]
    assert side.run(ALPHA.query()) == LatchState(0, 2)


def test_a_copy_counts_nothing(side: Side) -> None:
    """H16. Guards `not latch[3]`."""
    for _ in range(3):
        assert side.run(ALPHA.count_down("m:1")) == LatchState(1, 2)


def test_an_open_latch_stays_open(side: Side) -> None:
    """Guards `left > 0`: a late copy finds no id, as the opening removed the ids; a new id counts nothing."""
    side.run(ALPHA.count_down("m:1"))
    side.run(ALPHA.count_down("m:2"))
    side.listen(ALPHA.free_channel)
    for counter in ("m:1", "m:2", "m:3"):
        assert side.run(ALPHA.count_down(counter)) == LatchState(0, 2)
    assert side.hash(KEY) == {"version": "0.3", "left": "0", "total": "2"}
    assert side.heard() == []


def test_the_first_use_fixes_the_total(side: Side) -> None:
    assert side.run(ALPHA.count_down("m:1")) == LatchState(1, 2)
    assert side.run(BETA.query()) == LatchState(1, 2)
    assert side.run(BETA.count_down("m:2")) == LatchState(0, 2)
    side.delete(KEY)
    assert side.run(BETA.query()) == LatchState(5, 5)
    assert side.run(ALPHA.count_down("m:1")) == LatchState(4, 5)


@pytest.mark.parametrize("counted", [0, 1, 2], ids=["fresh", "closed", "open"])
@pytest.mark.parametrize("use", [ALPHA.query(), ALPHA.count_down("m:1"), ALPHA.count_down("m:9")], ids=str)
def test_every_use_refreshes_and_nothing_shortens(side: Side, counted: int, use: Call[LatchState]) -> None:
    """Guards `math.max` and each PEXPIRE; also for a key that lost its expiry."""
    for number in range(counted):
        side.run(LatchCalls(KEYS, "n", 2, 1000).count_down(f"m:{number + 1}"))
    side.run(use)
    assert TTL - SLACK < side.pttl(KEY) <= TTL
    side.run(BETA.query())
    side.run(BETA.count_down("m:7"))
    assert TTL - SLACK < side.pttl(KEY) <= TTL
    fields = side.hash(KEY)
    side.delete(KEY)
    side.hset(KEY, fields)
    side.run(use)
    assert TTL - SLACK < side.pttl(KEY) <= TTL


def test_after_its_expiry_it_is_a_fresh_one(side: Side) -> None:
    side.run(ALPHA.count_down("m:1"))
    side.run(ALPHA.count_down("m:2"))
    side.expire(KEY)
    assert side.run(ALPHA.count_down("m:3")) == LatchState(1, 2)


@pytest.mark.parametrize("counts", [1, 2], ids=["closed", "open"])
def test_deleted_it_is_a_fresh_one(side: Side, counts: int) -> None:
    side.listen(ALPHA.free_channel)
    for number in range(counts):
        side.run(ALPHA.count_down(f"m:{number}"))
    side.heard()
    assert [side.run(BETA.delete()), side.run(BETA.delete())] == [True, False]
    assert not side.exists(KEY)
    assert side.heard() == []
    assert side.run(BETA.count_down("m:0")) == LatchState(4, 5)


def test_a_denied_deletion_changes_nothing(lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    lua.run(ALPHA.count_down("m:1"))
    assert DENIAL.search(str(outcome(denied("del"), ALPHA.delete())))
    assert lua.run(ALPHA.query()) == LatchState(1, 2)


def test_a_latch_of_one(side: Side) -> None:
    """Opens at its first use; the key has an expiry."""
    assert side.run(LatchCalls(KEYS, "n", 1, TTL).count_down("m:1")) == LatchState(0, 1)
    assert side.hash(KEY) == {"version": "0.3", "left": "0", "total": "1"}
    assert TTL - SLACK < side.pttl(KEY) <= TTL


@pytest.mark.parametrize("use", [ALPHA.query(), ALPHA.count_down("m:1")], ids=str)
def test_a_key_of_another_type_is_left_alone(side: Side, use: Call[LatchState]) -> None:
    """Guards that HMGET comes before PEXPIRE."""
    side.set(KEY, "a string")
    before = side.pttl(KEY)
    with pytest.raises(Refused, match="WRONGTYPE"):
        side.run(use)
    assert abs(side.pttl(KEY) - before) < SLACK


# A server and a store.

COUNTERS = ("a:1", "a:2", "b:1", "by:x", "left", "ü☃")
NAMES = 2
_examples = itertools.count()


class Step(NamedTuple):
    """One thing that happens on each side."""

    kind: str
    name: int
    facts: tuple[Any, ...] = ()


def step(kind: str, *facts: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.just(kind), st.integers(0, NAMES - 1), st.tuples(*facts))


totals = st.integers(1, 4)
ttls = st.sampled_from((100_000, 200_000, 400_000))
steps = st.one_of(
    step("count_down", totals, ttls, st.sampled_from([f"by:{counter}" for counter in COUNTERS])),
    step("count_down", totals, ttls, st.integers(1, 6).map(lambda number: f"m:{number}")),
    step("query", totals, ttls),
    step("delete"),
    step("again", st.integers(0, 20)),  # a copy that comes late
    step("gone"),  # deleted, evicted, or its time is over
    step("persist"),
    step("spoil"),
)


class World:
    """Both sides, on latches that no other example uses."""

    def __init__(self, lua: LuaSide) -> None:
        self.sides: tuple[Side, Side] = (lua, StoreSide())
        number = next(_examples)
        self.names = [f"{number} {{{i}}}" for i in range(NAMES)]
        self.keys = [KEYS.of("latch", name).lock for name in self.names]
        self.sent: list[Call[Any]] = []
        for side in self.sides:
            side.listen(*(KEYS.of("latch", name).free for name in self.names))

    def take(self, step: Step) -> None:
        call = self.request(step)
        if call is not None:
            self.sent.append(call)
            server, store = (outcome(side, call) for side in self.sides)
            assert server == store or gist(server) == gist(store) == "WRONGTYPE", (
                f"{call}: the server answers {server}, the store {store}"
            )
            return
        key = self.keys[step.name]
        for side in self.sides:
            if step.kind == "gone":
                side.delete(key)
            elif step.kind == "spoil":
                side.set(key, "a string")
            elif step.kind == "persist" and (fields := side.snapshot([key])[0][0]):
                side.delete(key)
                side.hset(key, fields)

    def request(self, step: Step) -> Call[Any] | None:
        match step.kind, step.facts:
            case "count_down", (total, ttl, counter):
                return LatchCalls(KEYS, self.names[step.name], total, ttl).count_down(counter)
            case "query", (total, ttl):
                return LatchCalls(KEYS, self.names[step.name], total, ttl).query()
            case "delete", _:
                return LatchCalls(KEYS, self.names[step.name], 1, 1).delete()
            case "again", (back,):
                return self.sent[-1 - back % len(self.sent)] if self.sent else None
        return None

    def compare(self) -> None:
        server, store = (side.snapshot(self.keys) for side in self.sides)
        for key, (content, pttl), (content_, pttl_) in zip(self.keys, server, store, strict=True):
            assert content == content_, f"{key}: the server leaves {content}, the store {content_}"
            assert pttl == pttl_ if min(pttl, pttl_) < 0 else abs(pttl - pttl_) < SLACK, f"{key}: {pttl}, {pttl_}"
        said, said_ = (side.heard() for side in self.sides)
        assert said == said_, f"the server tells {said}, the store {said_}"


def outcome(side: Side, call: Call[Any]) -> object:
    try:
        return side.run(call)
    except Refused as error:
        return str(error)


COUNT = Step("count_down", 0, (2, 100_000, "m:1"))
OPENING = Step("count_down", 0, (2, 100_000, "m:2"))


@examples(40)
@given(sequence=st.lists(steps, min_size=1, max_size=20))
@example(sequence=[COUNT, COUNT, OPENING, OPENING, COUNT, Step("again", 0, (4,))])
@example(sequence=[COUNT, OPENING, Step("gone", 0), Step("again", 0, (0,))])
def test_the_store_does_what_a_server_does(sides: Callable[[], LuaSide], sequence: list[Step]) -> None:
    world = World(sides())
    for step in sequence:
        world.take(step)
        world.compare()


@examples(40)
@given(total=st.integers(1, 5), copies=st.lists(st.integers(1, 8), max_size=40))
def test_it_opens_with_the_total_of_distinct_ids_and_never_before(total: int, copies: list[int]) -> None:
    """Whatever is repeated and in whatever order; run on a store, which does what a server does."""
    side, calls = StoreSide(), LatchCalls(KEYS, "n", total, TTL)
    distinct: set[int] = set()
    for number in copies:
        distinct.add(number)
        assert side.run(calls.count_down(f"m:{number}")) == LatchState(max(0, total - len(distinct)), total)


# Denied commands. Redis does not roll a script back.


@pytest.fixture
def denied(redis_server: RedisServer, lua: LuaSide) -> Iterator[Callable[[str], LuaSide]]:
    """Return the side of a user that may do everything but one command."""
    sides: list[LuaSide] = []

    def deny(command: str) -> LuaSide:
        lua.link.execute_command(*acl.setuser(lua.link, "limited", *acl.EVERYTHING, f"-{command}"))
        sides.append(LuaSide(redis_cli.client(redis_server.url.replace("redis://", "redis://limited:secret@"))))
        return sides[-1]

    yield deny
    for side in sides:
        side.close()
        side.link.close()
    lua.link.execute_command("ACL", "DELUSER", "limited")


SITUATIONS = {
    "query of none": ([], ALPHA.query()),
    "query": ([ALPHA.count_down("m:1")], ALPHA.query()),
    "count the first": ([], ALPHA.count_down("m:1")),
    "count": ([BETA.count_down("m:1")], BETA.count_down("m:2")),
    "open": ([ALPHA.count_down("m:1")], ALPHA.count_down("m:2")),
    "count when open": ([ALPHA.count_down("m:1"), ALPHA.count_down("m:2")], ALPHA.count_down("m:2")),
}
CASES = [(name, command) for name in SITUATIONS for command in sorted(map(str.lower, commands(SCRIPTS)))]


@pytest.mark.parametrize(("situation", "command"), CASES)
def test_a_denied_command_counts_nothing_and_leaves_no_key_without_an_expiry(
    situation: str, command: str, lua: LuaSide, denied: Callable[[str], LuaSide]
) -> None:
    """Guards the order of commands, and both pcalls."""
    before, call = SITUATIONS[situation]
    for earlier in before:
        lua.run(earlier)
    found = lua.hash(KEY)
    answer = outcome(denied(command), call)
    if isinstance(answer, LatchState):
        assert answer == lua.run(call)  # as if nothing had been denied: a copy reads the same
        assert lua.hash(KEY)["left"] == f"{answer.left}"
    else:
        assert DENIAL.search(str(answer))
        assert command in {"hmget", "exists", "pttl", "pexpire", "hset"}
        assert lua.hash(KEY) == found
    assert not lua.exists(KEY) or lua.pttl(KEY) > 0


@pytest.mark.parametrize("command", ["del", "publish"])
def test_what_an_opening_can_do_without(command: str, lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    lua.run(ALPHA.count_down("m:1"))
    assert denied(command).run(ALPHA.count_down("m:2")) == LatchState(0, 2)
    assert lua.run(ALPHA.query()) == LatchState(0, 2)


def test_a_server_at_its_memory_limit_lets_it_open(own_server: RedisServer) -> None:
    """You can count down a latch that others wait for. Guards that PEXPIRE comes before HSET."""
    with redis_cli.client(own_server.url) as link:
        side = LuaSide(link)
        side.run(ALPHA.count_down("m:1"))
        link.config_set("maxmemory-policy", "noeviction")
        link.config_set("maxmemory", 1)
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            link.set("more", 1)
        assert side.run(ALPHA.count_down("m:2")) == LatchState(0, 2)
        side.close()
