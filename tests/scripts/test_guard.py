"""What the script around a user's writes promises: they run only while the owner holds, in order, and at most once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from aiolock.scripts.base import Arg, Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.guard import COMMANDS, UNDER_LOCK, Permit, Verdict, around, permit
from aiolock.scripts.outcomes import Granted
from tests.support.generated import examples
from tests.support.lock_calls import FENCE, HIGH, LIVENESS, TTL, Lock, change, enter, expire, state
from tests.support.multi import Multi, Name
from tests.support.queues import RW, Queue
from tests.support.scripting import DENIAL, KEYS, LuaSide, Refused, Side, StoreSide

NAME = Lock()
HELD = NAME.acquire(Bid("m:1", TTL, HIGH, "me"))
MINE = permit(KEYS, "lock", ["order:42"], "m:1", FENCE, 1)
LAST = MINE.keys[0]
WRITER = Queue(RW, want=1)
READER = Queue(RW, want=0)
FULL = 2**31
DONE, NOT_HELD, OVERTAKEN = Verdict


def decided(side: Side, number: int, allowed: Permit = MINE) -> Verdict:
    return side.run(allowed.call("order:42", number))


class TestUnderALock:
    def test_the_holder_writes(self, side: Side) -> None:
        side.run(HELD)
        before = state(side, NAME)
        assert decided(side, 1) is DONE
        assert state(side, NAME) == before
        assert side.get(LAST) == f"{FENCE} 1 "
        assert 0 < side.pttl(LAST) <= 3_600_000

    def test_no_one_else_writes(self, side: Side) -> None:
        assert decided(side, 1) is NOT_HELD
        side.run(HELD)
        assert decided(side, 1, MINE._replace(owner="m:2")) is NOT_HELD
        assert decided(side, 1, MINE._replace(fence=FENCE - 1)) is NOT_HELD
        assert not side.exists(LAST)

    def test_not_after_its_time(self, side: Side) -> None:
        side.run(HELD)
        expire(side, NAME)
        assert decided(side, 1) is NOT_HELD

    def test_not_after_its_end(self, side: Side) -> None:
        side.run(HELD)
        side.run(NAME.release("m:1", TTL, 0, "clean", False))
        assert decided(side, 1) is NOT_HELD

    def test_a_grant_from_the_queue_counts_before_it_is_confirmed(self, side: Side) -> None:
        side.run(HELD)
        enter(side, NAME, "n:1", counted=False, liveness_ms=LIVENESS)
        side.run(NAME.release("m:1", TTL, 0, "clean", False))
        found = state(side, NAME)
        assert (found.owner, found.depth) == ("n:1", 0)
        assert decided(side, 1, MINE._replace(owner="n:1", fence=found.fence)) is DONE

    def test_a_copy_is_answered_again_even_after_the_end(self, side: Side) -> None:
        side.run(HELD)
        assert decided(side, 1) is DONE
        side.run(NAME.release("m:1", TTL, 0, "clean", False))
        assert decided(side, 1) is DONE
        assert decided(side, 2) is NOT_HELD

    def test_an_overtaken_write_does_nothing(self, side: Side) -> None:
        side.run(HELD)
        assert decided(side, 10) is DONE
        assert decided(side, 9) is OVERTAKEN
        assert side.get(LAST) == f"{FENCE} 10 "

    def test_each_hold_counts_anew(self, side: Side) -> None:
        """Another process begins at 1."""
        side.run(HELD)
        assert decided(side, 7) is DONE
        side.run(NAME.release("m:1", TTL, 0, "clean", False))
        grant = side.run(NAME.acquire(Bid("n:1", TTL, HIGH, "other")))
        assert isinstance(grant, Granted)
        assert decided(side, 1, MINE._replace(owner="n:1", fence=grant.fence)) is DONE

    @pytest.mark.parametrize("key", [LAST, NAME.state], ids=["last write", "state"])
    def test_a_key_of_another_type_is_an_error(self, side: Side, key: str) -> None:
        side.run(HELD)
        side.delete(key)
        side.hset(key, {"a": "b"})
        with pytest.raises(Refused, match="WRONGTYPE"):
            decided(side, 1)

    def test_text_that_is_not_ours_is_an_error(self, side: Side) -> None:
        side.run(HELD)
        side.set(LAST, "mine!")
        with pytest.raises(Refused, match="WRONGTYPE"):
            decided(side, 1)


class TestUnderSeveralLocks:
    def test_all_must_be_held(self, side: Side) -> None:
        names = Name("a"), Name("b")
        grant = side.run(Multi(*names).acquire(Bid("m:+1", TTL, HIGH, "me")))
        assert isinstance(grant, Granted)
        both = permit(KEYS, "multi", ["a", "b"], "m:+1", grant.fence, 1)
        assert decided(side, 1, both) is DONE
        change(side, names[1], expires=1)  # type: ignore[arg-type]
        assert decided(side, 2, both) is NOT_HELD


class TestUnderAReadWriteLock:
    def held(self, side: Side, name: Queue = WRITER, owner: str = "m:1") -> Permit:
        (grant,) = [side.run(name.request(owner, TTL, HIGH, "me"))]
        assert isinstance(grant, Granted)
        return permit(KEYS, "rw", ["order:42"], owner, grant.fence, FULL)

    def test_the_writer_writes(self, side: Side) -> None:
        mine = self.held(side)
        assert decided(side, 1, mine) is DONE
        assert decided(side, 2, mine._replace(owner="m:2")) is NOT_HELD
        assert decided(side, 2, mine._replace(fence=mine.fence - 1)) is NOT_HELD

    def test_a_reader_does_not(self, side: Side) -> None:
        """A writer that went on as a reader keeps its fence: a late write must not get in."""
        assert decided(side, 1, self.held(side, READER)) is NOT_HELD

    def test_not_after_its_time(self, side: Side) -> None:
        mine = self.held(side)
        side.score(WRITER.order, "m:1", 1)
        assert decided(side, 1, mine) is NOT_HELD

    def test_not_while_its_end_is_unknown(self, side: Side) -> None:
        mine = self.held(side)
        side.delete(WRITER.order)
        assert decided(side, 1, mine) is NOT_HELD


steps = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 2), st.integers(0, 4)),
    st.tuples(st.just("acquire"), st.integers(0, 2), st.just(0)),
    st.tuples(st.sampled_from(["release", "expire", "forget"]), st.just(0), st.just(0)),
)
_numbers = itertools.count()


@given(st.lists(steps, max_size=25))
@examples(15)
def test_both_sides_decide_the_same(sides: Callable[[], LuaSide], steps: Sequence[tuple[str, int, int]]) -> None:
    """Whoever writes, in any order and number of copies. And no two writes of one hold are done out of order."""
    name = Lock(f"n{next(_numbers)}")
    both: tuple[Side, Side] = (sides(), StoreSide())
    fences = [0, 0, 0]
    for kind, owner, number in steps:
        answers = [_step(side, name, kind, owner, number, fences[owner]) for side in both]
        assert answers[0] == answers[1]
        if kind == "acquire":
            fences[owner] = answers[0] or fences[owner]
        last = permit(KEYS, "lock", [name.name], "", 0, 1).keys[0]
        assert both[0].get(last) == both[1].get(last)


def _step(side: Side, name: Lock, kind: str, owner: int, number: int, fence: int) -> int | None:
    if kind == "write":
        allowed = permit(KEYS, "lock", [name.name], f"m:{owner + 1}", fence, 1)
        return side.run(allowed.call(name.name, number))
    if kind == "acquire":
        answer = side.run(name.acquire(Bid(f"m:{owner + 1}", TTL, HIGH, "me")))
        return answer.fence if isinstance(answer, Granted) else None
    if kind == "release":
        side.run(name.release(state(side, name).owner, TTL, 0, "clean", False))
    elif side.exists(name.state):
        side.delete(name.state) if kind == "forget" else expire(side, name)
    return None


# What runs in it: only on a server.


@pytest.fixture
def bare(lua: LuaSide) -> LuaSide:
    """A side with the lock held, whose link runs whole scripts."""
    lua.run(HELD)
    return lua


def run(side: LuaSide, lua: str, number: int, keys: Sequence[str] = (), args: Sequence[Arg] = ()) -> object:
    words = [*MINE.keys, *keys, *MINE.args(number), *args]
    return side.link.eval(around(UNDER_LOCK, lua).lua, len(MINE.keys) + len(keys), *words)


COUNT = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


class TestBody:
    def test_it_has_its_own_keys_and_arguments(self, bare: LuaSide) -> None:
        assert run(bare, "return { #KEYS, #ARGV, KEYS[1], ARGV[2] }", 1, ["k"], ["x", "y"]) == [0, [1, 2, b"k", b"y"]]

    def test_a_copy_runs_nothing_and_gets_the_reply(self, bare: LuaSide) -> None:
        assert run(bare, COUNT, 1, ["k"], [5]) == run(bare, COUNT, 1, ["k"], [5]) == [0, 5]
        assert run(bare, COUNT, 2, ["k"], [5]) == [0, 10]
        assert run(bare, COUNT, 1, ["k"], [5]) == [OVERTAKEN]
        assert bare.get("k") == "10"

    @pytest.mark.parametrize("number", [1, 2], ids=["first", "copy"])
    def test_any_reply_survives(self, bare: LuaSide, number: int) -> None:
        lua = "return { 1, false, 'a\\0b', { 'c', {} }, redis.status_reply('FINE') }"
        for _ in range(number):
            assert run(bare, lua, 1) == [0, [1, None, b"a\0b", [b"c", []], b"FINE"]]
        assert run(bare, "return nil", 2) == run(bare, "return nil", 2) == [0]

    def test_an_error_is_the_bodys_own_and_a_copy_gets_it_again(self, bare: LuaSide) -> None:
        bare.hset("h", {"a": "b"})
        lua = "redis.call('SET', 'done', 1) return redis.call('INCRBY', KEYS[1], 1)"
        for _ in range(2):
            with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
                run(bare, lua, 1, ["h"])
            bare.delete("done")
        assert bare.get("done") is None

    def test_a_mistake_has_the_users_line(self, bare: LuaSide) -> None:
        with pytest.raises(redis.exceptions.ResponseError, match=r"2: attempt to (call|index)"):
            run(bare, "local a = nil\nreturn a.b.c", 1)

    def test_commands(self, bare: LuaSide) -> None:
        args = [3, "SET", "a", "1", 3, "INCRBY", "a", "4", 3, "DEL", "b", "c"]
        answer = run(bare, COMMANDS, 1, ["a", "b", "c"], args)
        assert answer == run(bare, COMMANDS, 1, ["a", "b", "c"], args) == [0, [b"OK", 5, 0]]
        assert bare.get("a") == "5"

    def test_nothing_runs_for_someone_else(self, bare: LuaSide) -> None:
        expire(bare, NAME)
        assert run(bare, COUNT, 1, ["k"], [5]) == [NOT_HELD]
        assert not bare.exists("k")


@pytest.mark.parametrize("command", ["get", "hmget", "set", "time"])
def test_a_denied_command_of_ours_writes_nothing(denied: Callable[[str], LuaSide], lua: LuaSide, command: str) -> None:
    lua.run(HELD)
    with pytest.raises(redis.exceptions.ResponseError, match=DENIAL):
        run(denied(command), COUNT, 1, ["k"], [5])
    assert not lua.exists("k")
    assert not lua.exists(LAST)


def test_at_the_memory_limit_nothing_is_written(lua: LuaSide) -> None:
    """There a server refuses the first write of a script: that is ours, so the body has not begun."""
    lua.run(HELD)
    limit = lua.link.config_get("maxmemory")["maxmemory"]
    lua.link.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.exceptions.ResponseError, match=r"OOM|maxmemory"):
            run(lua, COUNT, 1, ["k"], [5])
    finally:
        lua.link.config_set("maxmemory", limit)
    assert not lua.exists("k")
    assert run(lua, COUNT, 1, ["k"], [5]) == [0, 5]


def test_a_call_has_the_permits_keys() -> None:
    call: Call[Verdict] = MINE.call("order:42", 3)
    assert list(call.keys) == ["aiolock:lock:{order:42}:written", "aiolock:lock:{order:42}"]
    assert list(call.args) == ["m:1", FENCE, 3, 1, 1]
