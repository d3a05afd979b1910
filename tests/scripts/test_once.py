"""The scripts of `once()`: both sides keep the promises of the headers, and both do the same."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid
from aiolock.scripts.lock import LockCalls
from aiolock.scripts.once import OnceCalls
from aiolock.scripts.outcomes import Granted
from tests.support.generated import Step, examples, step
from tests.support.scripting import DENIAL, KEYS, LuaSide, Refused, Side, StoreSide, gist

SLACK = 20_000
WINDOW = 300_000
TTL = 200_000
LOCK = LockCalls(KEYS, "n", 1000)
ONCE = OnceCalls(KEYS, "n")
RECORD = KEYS.of("once", "n").lock


def held(side: Side, owner: str = "m:1", calls: LockCalls = LOCK) -> int:
    grant = side.run(calls.acquire(Bid(owner, TTL, 0, "")))
    assert isinstance(grant, Granted)
    return grant.fence


def status(side: Side) -> str | None:
    kept = side.run(ONCE.last_run())
    return None if kept is None else kept.status


def begin(fence: int, *repeatable: str) -> Call[Any]:
    return ONCE.begin(fence, WINDOW, repeatable, "web:1")


def test_a_run_begins_and_ends(side: Side) -> None:
    fence = held(side)
    kept = side.run(begin(fence))
    assert kept is not None
    assert (kept.mine, kept.fence, kept.status, kept.by) == (True, fence, "running", "web:1")
    assert WINDOW - SLACK < side.pttl(RECORD) <= WINDOW
    assert status(side) == "running"
    assert side.run(ONCE.finish(fence, "succeeded"))
    assert status(side) == "succeeded"
    assert 0 < side.pttl(RECORD) <= WINDOW


def test_who_has_the_lock_without_a_record(side: Side) -> None:
    """It outlasts its window, or was forgotten. Guards `not lock.live`, and the time in the fence."""
    grant = side.run(LOCK.acquire(Bid("m:1", TTL, 0, "web-3:4711\nnightly")))
    assert isinstance(grant, Granted)
    kept = side.run(ONCE.last_run())
    assert kept is not None
    assert (kept.mine, kept.fence, kept.status, kept.left, kept.by) == (False, grant.fence, "held", 0, "web-3:4711")
    assert 0 <= kept.age < SLACK
    side.run(LOCK.release("m:1", TTL, 0, "clean", False))
    assert side.run(ONCE.last_run()) is None


def test_copies(side: Side) -> None:
    """Of a request whose answer was lost. Guards `run.fence == ARGV[1]`."""
    fence = held(side)
    for _ in range(2):
        kept = side.run(begin(fence))
        assert kept is not None
        assert kept.mine
    for _ in range(2):
        assert side.run(ONCE.finish(fence, "succeeded"))
    kept = side.run(begin(fence))  # a late one begins no second run
    assert kept is not None
    assert (kept.mine, kept.status) == (False, "succeeded")


def test_only_the_hold_begins(side: Side) -> None:
    """Guards `lock.fence ~= ARGV[1]`: a request that comes after its hold would keep a window for no run."""
    fence = held(side)
    side.run(LOCK.release("m:1", TTL, 0, "clean", False))
    assert side.run(begin(fence)) is None
    assert not side.exists(RECORD)
    held(side, "m:2")
    assert side.run(begin(fence)) is None


def test_an_end_without_a_word_is_an_interruption(side: Side) -> None:
    fence = held(side)
    side.run(begin(fence))
    side.run(LOCK.release("m:1", TTL, 0, "clean", False))
    assert status(side) == "interrupted"
    later = held(side, "m:2")
    assert status(side) == "interrupted"  # another hold is not that run's
    kept = side.run(begin(later, "failed"))
    assert kept is not None
    assert not kept.mine
    kept = side.run(begin(later, "failed", "interrupted"))
    assert kept is not None
    assert kept.mine
    assert not side.run(ONCE.finish(fence, "succeeded"))  # the first one, late
    assert status(side) == "running"


def test_a_window_begins_with_each_run(side: Side) -> None:
    fence = held(side)
    side.run(begin(fence))
    side.run(ONCE.finish(fence, "failed"))
    side.shorten(RECORD, WINDOW // 3)
    side.run(begin(fence, "failed"))
    assert WINDOW - SLACK < side.pttl(RECORD) <= WINDOW


def test_undone_and_forgotten(side: Side) -> None:
    fence = held(side)
    side.run(begin(fence))
    assert not side.run(ONCE.undo(fence + 1))
    assert side.run(ONCE.undo(fence))
    assert not side.run(ONCE.forget())
    side.run(begin(fence))
    assert side.run(ONCE.forget())
    assert not side.exists(RECORD)
    assert not side.run(ONCE.finish(fence, "succeeded"))  # leaves no record without an expiry
    assert not side.exists(RECORD)


@pytest.mark.parametrize("copies", [1, 2])
def test_what_an_undone_run_had_replaced_is_the_last_run_again(side: Side, copies: int) -> None:
    """Broken by an undo that deletes the record."""
    fence = held(side)
    side.run(begin(fence))
    side.run(ONCE.finish(fence, "failed"))
    side.shorten(RECORD, WINDOW // 3)
    side.run(LOCK.release("m:1", TTL, 0, "clean", False))
    later = held(side, "m:2")
    side.run(ONCE.begin(later, WINDOW, ["failed"], "web:2"))
    for _ in range(copies):
        side.run(ONCE.undo(later))
    kept = side.run(ONCE.last_run())
    assert kept is not None
    assert (kept.fence, kept.status, kept.by) == (fence, "failed", "web:1")
    assert WINDOW // 3 - SLACK < side.pttl(RECORD) <= WINDOW // 3


def test_an_undone_run_does_not_bring_back_what_is_over(side: Side) -> None:
    """Guards the comparison with `until`."""
    fence = held(side)
    side.run(begin(fence))
    side.run(ONCE.finish(fence, "failed"))
    side.run(begin(fence, "failed"))
    side.hset(RECORD, {"before": re.sub(r"until=\d+", "until=1", side.hash(RECORD)["before"])})
    assert side.run(ONCE.undo(fence))
    assert not side.exists(RECORD)


@pytest.mark.parametrize(
    "call", [ONCE.finish(7, "failed"), ONCE.undo(7), ONCE.forget(), ONCE.last_run(), begin(7)], ids=str
)
def test_the_record_of_another_version(side: Side, call: Call[Any]) -> None:
    record = {"version": "0.4", "fence": "7", "started": "1", "status": "running", "process": "web:1"}
    side.hset(RECORD, record)
    with pytest.raises(Refused, match=f"WRONGVERSION 0.4 {re.escape(RECORD)}"):
        side.run(call)
    assert side.hash(RECORD) == record


def commands(call: Call[Any]) -> set[str]:
    lua = call.script.lua.rpartition("-- ")[2]
    return {name.lower() for name in re.findall(r"redis\.call\('(\w+)'", lua)}


@pytest.mark.parametrize("command", ["hset", "pexpire"])
def test_a_denied_beginning_leaves_no_record(lua: LuaSide, denied: Callable[[str], LuaSide], command: str) -> None:
    """Guards the first PEXPIRE: without it, a denied second one leaves a record for ever."""
    begin_it = begin(held(lua))
    assert command in commands(begin_it)
    with pytest.raises(Refused) as caught:
        denied(command).run(begin_it)
    assert DENIAL.search(str(caught.value))
    assert not lua.exists(RECORD)


# A server and a store.

_examples = itertools.count()


fences = st.integers(0, 3)  # how many grants ago
statuses = st.sampled_from(["succeeded", "failed"])
steps = st.one_of(
    step("acquire", st.sampled_from(["m:1", "m:2"])),
    step("release"),
    step("begin", fences, st.lists(st.sampled_from(["failed", "interrupted"]), unique=True)),
    step("finish", fences, statuses),
    step("undo", fences),
    step("forget"),
    step("last_run"),
    step("spoil"),
)


class World:
    """Both sides, on a name that no other example uses. Their clocks differ, so fences go by their order."""

    def __init__(self, lua: LuaSide) -> None:
        self.sides: tuple[Side, Side] = (lua, StoreSide())
        self.name = f"once {next(_examples)}"
        self.lock, self.once = LockCalls(KEYS, self.name, 1000), OnceCalls(KEYS, self.name)
        self.grants: tuple[list[int], list[int]] = ([], [])
        self.holder: str | None = None
        self.record = KEYS.of("once", self.name).lock

    def take(self, step: Step) -> None:
        if step.kind == "acquire":
            if self.holder is None:
                (self.holder,) = step.facts
                for side, grants in zip(self.sides, self.grants, strict=True):
                    grants.append(held(side, self.holder or "", self.lock))
        elif step.kind == "release":
            if self.holder is not None:
                for side in self.sides:
                    side.run(self.lock.release(self.holder, TTL, 0, "clean", False))
            self.holder = None
        elif step.kind == "spoil":
            for side in self.sides:
                side.set(self.record, "a string")
        else:
            answers = [self.answer(side, grants, step) for side, grants in zip(self.sides, self.grants, strict=True)]
            assert answers[0] == answers[1], f"{step}: the server answers {answers[0]}, the store {answers[1]}"

    def answer(self, side: Side, grants: list[int], step: Step) -> object:
        fence = grants[-1 - step.facts[0] % len(grants)] if grants and step.facts else 7
        calls: dict[str, Callable[[], Call[Any]]] = {
            "begin": lambda: self.once.begin(fence, WINDOW, step.facts[1], "web:1"),
            "finish": lambda: self.once.finish(fence, step.facts[1]),
            "undo": lambda: self.once.undo(fence),
            "forget": self.once.forget,
            "last_run": self.once.last_run,
        }
        try:
            kept = side.run(calls[step.kind]())
        except Refused as error:
            return gist(error)
        if kept is None or isinstance(kept, bool):
            return kept
        return kept.mine, grants.index(kept.fence), kept.status, kept.by, kept.left > WINDOW - SLACK

    def compare(self) -> None:
        (server, store) = ((side.exists(self.record), side.pttl(self.record)) for side in self.sides)
        assert server[0] == store[0]
        assert abs(server[1] - store[1]) < SLACK


ACQUIRE, BEGIN, FINISH = Step("acquire", ("m:1",)), Step("begin", (0, [])), Step("finish", (0, "failed"))


@examples(25)
@given(sequence=st.lists(steps, min_size=1, max_size=20))
@example(sequence=[ACQUIRE, BEGIN, FINISH, BEGIN, Step("begin", (0, ["failed"])), Step("release"), Step("last_run")])
@example(
    sequence=[
        ACQUIRE,
        BEGIN,
        Step("release"),
        ACQUIRE,
        Step("begin", (0, ["interrupted"])),
        Step("finish", (1, "failed")),
    ]
)
@example(sequence=[ACQUIRE, Step("spoil"), BEGIN, FINISH, Step("last_run"), Step("forget")])
def test_the_store_does_what_a_server_does(sides: Callable[[], LuaSide], sequence: list[Step]) -> None:
    world = World(sides())
    for one in sequence:
        world.take(one)
        world.compare()
