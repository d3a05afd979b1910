"""The condition's scripts: both sides keep the promises of the headers, both do the same, and denials are harmless."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiolock.scripts
from aiolock.scripts.base import Call
from aiolock.scripts.condition import SCRIPTS, ConditionCalls
from aiolock.scripts.keys import Keys
from tests.support.generated import examples
from tests.support.scripting import LuaSide, Refused, Side, StoreSide

KEYS = Keys("aiolock")
KEY = KEYS.of("condition", "n").lock
LIVENESS = 300_000
CALLS = ConditionCalls(KEYS, "n", LIVENESS)
SLACK = 20_000


def join(side: Side, *owners: str) -> None:
    for owner in owners:
        assert side.run(CALLS.wait(owner, joins=True, process="web-3:4711")) == ("waiting", len(line(side)))


def kept(side: Side, owner: str) -> dict[str, str]:
    """What the server keeps of a waiter."""
    return dict(word.split("=") for word in side.hash(KEY)[owner].split(" "))


def keep(side: Side, owner: str, until: int) -> None:
    """Let it have sent its last heartbeat at another time."""
    record = {**kept(side, owner), "until": str(until)}
    side.hset(KEY, {owner: " ".join(f"{name}={value}" for name, value in record.items())})


def line(side: Side) -> dict[str, str]:
    """Who waits, first to last, and whether they were notified."""
    records = {owner: kept(side, owner) for owner in side.hash(KEY) if owner != "version"}
    return {owner: record["notified"] for owner, record in sorted(records.items(), key=lambda one: one[1]["number"])}


def die(side: Side, owner: str) -> None:
    """Its last heartbeat is long ago."""
    keep(side, owner, until=1)


def test_each_script_has_both_sides() -> None:
    files = {path.stem for path in (Path(aiolock.scripts.__file__).parent / "condition").glob("*.lua")}
    assert {script.name for script in SCRIPTS} | {"line", "wake"} == files


def test_what_is_kept_of_a_waiter(side: Side) -> None:
    join(side, "m:1")
    side.run(CALLS.notify(1))
    assert side.hash(KEY)["version"] == "0.3"
    assert list(kept(side, "m:1")) == ["number", "until", "notified", "process"]
    assert (kept(side, "m:1")["notified"], kept(side, "m:1")["process"]) == ("1", "web-3:4711")
    side.run(CALLS.wait("m:1", joins=False, looks=False))
    assert kept(side, "m:1")["process"] == "web-3:4711"  # a heartbeat says no more than that


@pytest.mark.parametrize("process", ["", "a host of spaces=1:4711"])
def test_whatever_a_process_is_called(side: Side, process: str) -> None:
    side.run(CALLS.wait("m:1", joins=True, process=process))
    assert side.run(CALLS.wait("m:1", joins=False)) == ("waiting", 1)
    assert side.hash(KEY)["m:1"].endswith(f" process={process}")


@pytest.mark.parametrize("ends", [CALLS.leave("m:1", passes=True), CALLS.notify(1), CALLS.wait("m:1", joins=False)])
def test_nothing_is_left_of_the_last(side: Side, ends: Call[Any]) -> None:
    """Broken by a `version` that stays, alone."""
    join(side, "m:1")
    if ends.script.name != "leave":
        die(side, "m:1")
    side.run(ends)
    assert not side.exists(KEY)


def test_waiters_are_notified_in_order(side: Side) -> None:
    side.listen(KEYS.manager("m"), KEYS.manager("n"))
    join(side, "m:1", "n:1", "m:2")
    assert side.run(CALLS.notify(2)) == 2
    assert line(side) == {"m:1": "1", "n:1": "1", "m:2": "0"}
    assert [payload for _, payload in side.heard()] == ["refresh m:1", "refresh n:1"]
    for looks in (True, False):
        assert side.run(CALLS.wait("m:1", joins=False, looks=looks)) == ("notified", 3)
        assert side.run(CALLS.wait("m:2", joins=False, looks=looks)) == ("waiting", 3)
    assert side.run(CALLS.notify(5)) == 1
    assert side.run(CALLS.notify(5)) == 0


def test_a_copy_finds_its_entry(side: Side) -> None:
    join(side, "m:1", "m:2", "m:1")
    assert list(line(side)) == ["m:1", "m:2"]


def test_it_lives_as_long_as_its_waiters(side: Side) -> None:
    join(side, "m:1")
    assert LIVENESS + 60_000 - SLACK < side.pttl(KEY) <= LIVENESS + 60_000
    assert side.run(CALLS.leave("m:1", passes=True)) == 1
    assert not side.exists(KEY)
    assert side.run(CALLS.leave("m:1", passes=True)) == 0


@pytest.mark.parametrize("looks", [True, False])
def test_a_sign_of_life(looks: bool, side: Side) -> None:
    """It lengthens its own life, and never shortens the key's: another manager's waiters may live longer."""
    join(side, "m:1", "m:2")
    now = side.pttl(KEY)
    side.run(CALLS.leave("m:2", passes=False))
    until = int(kept(side, "m:1")["until"])
    keep(side, "m:1", until - LIVENESS + SLACK)
    assert side.run(CALLS.wait("m:1", joins=False, looks=looks)) == ("waiting", 1)
    assert int(kept(side, "m:1")["until"]) >= until
    assert side.run(ConditionCalls(KEYS, "n", 1000).wait("m:1", joins=False, looks=looks)) == ("waiting", 1)
    assert int(kept(side, "m:1")["until"]) >= until
    assert side.pttl(KEY) > now - SLACK


def test_only_a_look_at_the_others_finds_the_dead(side: Side) -> None:
    """That a heartbeat is one entry's work keeps a crowd from costing the square of its number."""
    join(side, "m:1", "m:2")
    side.run(CALLS.notify(1))
    die(side, "m:1")
    assert side.run(CALLS.wait("m:2", joins=False, looks=False)) == ("waiting", 2)
    assert side.run(CALLS.wait("m:2", joins=False)) == ("notified", 1)
    die(side, "m:2")
    assert side.run(CALLS.wait("m:2", joins=False, looks=False)) == ("gone", 0)  # itself it always finds


def test_the_unknown_are_told_so(side: Side) -> None:
    assert side.run(CALLS.wait("m:1", joins=False)) == ("gone", 0)
    assert side.run(CALLS.wait("m:1", joins=False, looks=False)) == ("gone", 0)
    assert side.run(CALLS.notify(1)) == 0
    assert not side.exists(KEY)


@pytest.mark.parametrize("passes", [False, True])
def test_leaving_after_a_notification(passes: bool, side: Side) -> None:
    join(side, "m:1", "m:2")
    side.run(CALLS.notify(1))
    side.run(CALLS.leave("m:1", passes))
    assert line(side) == {"m:2": str(int(passes))}


def test_leaving_without_one_passes_nothing_on(side: Side) -> None:
    join(side, "m:1", "m:2")
    side.run(CALLS.leave("m:1", passes=True))
    assert line(side) == {"m:2": "0"}


@pytest.mark.parametrize("finds_out", [CALLS.wait("m:2", joins=False), CALLS.notify(0)])
def test_the_dead_pass_theirs_on(finds_out: Call[Any], side: Side) -> None:
    join(side, "m:1", "m:2", "m:3")
    side.run(CALLS.notify(1))
    die(side, "m:1")
    side.run(finds_out)
    assert line(side) == {"m:2": "1", "m:3": "0"}


def test_the_dead_are_not_notified(side: Side) -> None:
    join(side, "m:1", "m:2")
    die(side, "m:1")
    assert side.run(CALLS.notify(1)) == 1
    assert line(side) == {"m:2": "1"}


def test_whoever_comes_back_begins_anew(side: Side) -> None:
    join(side, "m:1")
    side.run(CALLS.notify(1))
    die(side, "m:1")
    again = side.run(CALLS.wait("m:1", joins=True))
    assert again == ("notified", 1)  # its own was passed on, to the only one there is


OWNERS = ["p:1", "p:2", "q:1", "q:2"]
"""Of managers that no other test listens for: the last example listens until all tests of this file have run."""
steps = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from(OWNERS), st.booleans()),
    st.tuples(st.just("sign"), st.sampled_from(OWNERS), st.booleans()),
    st.tuples(st.just("leave"), st.sampled_from(OWNERS), st.booleans()),
    st.tuples(st.just("notify"), st.integers(0, 3), st.none()),
    st.tuples(st.just("die"), st.sampled_from(OWNERS), st.none()),
)


@examples(100)
@given(st.lists(steps, max_size=14))
def test_both_sides_do_the_same(sides: Callable[[], LuaSide], plan: list[tuple[str, Any, Any]]) -> None:
    lua = sides()
    lua.flush()
    both: list[Side] = [lua, StoreSide()]
    for side in both:
        side.listen(KEYS.manager("p"), KEYS.manager("q"))
    for kind, fact, more in plan:
        answers = []
        for side in both:
            if kind == "die":
                if fact in side.hash(KEY):
                    die(side, fact)
                answers.append(None)
            elif kind == "sign":
                answers.append(side.run(CALLS.wait(fact, more, looks=False)))
            else:
                answers.append(
                    side.run(getattr(CALLS, kind)(fact) if more is None else getattr(CALLS, kind)(fact, more))
                )
        assert answers[0] == answers[1]
        assert line(both[0]) == line(both[1])
        if both[0].exists(KEY):
            assert both[0].pttl(KEY) > 0
    heard = [[payload for _, payload in side.heard()] for side in both]
    assert heard[0] == heard[1]


def commands(call: Call[Any]) -> list[str]:
    return sorted({command.lower() for command in re.findall(r"redis\.p?call\('(\w+)'", call.script.lua)})


SITUATIONS = {
    "wait": CALLS.wait("m:2", joins=True),
    "wait again": CALLS.wait("m:1", joins=False),
    "heartbeat": CALLS.wait("m:1", joins=False, looks=False),
    "notify": CALLS.notify(1),
    "leave": CALLS.leave("m:1", passes=True),
}


@pytest.mark.parametrize(
    ("name", "command"), [(name, one) for name, call in SITUATIONS.items() for one in commands(call)]
)
def test_what_a_denial_leaves(name: str, command: str, lua: LuaSide, denied: Callable[[str], LuaSide]) -> None:
    """No key without an expiry, and nobody lost."""
    join(lua, *([] if name == "wait" else ["m:1", "n:1"]))
    before = line(lua)
    try:
        denied(command).run(SITUATIONS[name])
    except Refused:
        assert set(line(lua)) >= set(before) - {"m:1"}
    else:
        assert command == "publish" or line(lua) != before or name in ("wait again", "heartbeat")
    assert not lua.exists(KEY) or lua.pttl(KEY) > 0
