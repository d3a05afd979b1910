"""A name that another version of aiolock has written is refused, and left as it was."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiolock.backends.redis.failures import ErrorReply, code_of
from aiolock.scripts.base import Call
from aiolock.scripts.bid import Bid, slots_of, wanting_slots
from aiolock.scripts.guard import permit
from aiolock.scripts.outcomes import Failed, Granted, Queued
from tests.support.queues import FULL, KEYS, RW, SEMAPHORE, Queue, assert_sound, change, holders
from tests.support.scripting import Refused as Failure
from tests.support.scripting import Side

RELEASED = Path(__file__).parents[1] / "crossproc" / "released"
TTL = 30_000
HIGH = 2**51
PERMITS, OTHER, WRITE = Queue(SEMAPHORE), Queue(SEMAPHORE, "other"), Queue(RW, want=1)


def write_0_2(side: Side, name: Queue) -> None:
    side.hset(name.hash, {"state": f"1 1 0 {TTL} 0 1 3 0 0 {HIGH} {HIGH} web-3:4711", "m:1": f"h 1 1 1 {HIGH} 0"})


def write_later(side: Side, name: Queue) -> None:
    side.run(name.request("m:1", TTL, HIGH, ""))
    change(side, name, version="0.4")


WRITTEN: dict[str, Callable[[Side, Queue], None]] = {"0.2": write_0_2, "0.4": write_later}
CALLS: dict[str, Call[Any]] = {
    "acquire": PERMITS.request("m:1", TTL, 0, ""),
    "enter": PERMITS.request("n:1", TTL, 0, "", queue_number=0),
    "release": PERMITS.release("m:1", TTL, 0, "clean", False),
    "transfer": PERMITS.resume("m:1", HIGH, Bid("m:2", TTL, 0, ""), False),
    "force_release": PERMITS.force_release(),
    "set_capacity": PERMITS.set_capacity(2),
    "info": PERMITS.info(),
}


def code(text: str) -> str:
    return code_of(ErrorReply(text))


@pytest.fixture(params=WRITTEN)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("what", CALLS)
def test_each_request_is_refused(what: str, version: str, side: Side) -> None:
    """Guards `check` in state.lua."""
    WRITTEN[version](side, PERMITS)
    before = side.hash(PERMITS.hash)
    with pytest.raises(Failure, match=f"WRONGVERSION {version}") as refused:
        side.run(CALLS[what])
    assert code(str(refused.value)) == "WRONGVERSION"
    assert side.hash(PERMITS.hash) == before


def test_each_part_of_a_batch_is_judged_by_itself(version: str, side: Side) -> None:
    """Its text names the version."""
    WRITTEN[version](side, PERMITS)
    before = side.hash(PERMITS.hash)
    failed, granted = side.run(
        PERMITS.refresh_many([name.refresh(Bid("m:1", TTL, 0, "")) for name in (PERMITS, OTHER)])
    )
    (unrenewed,) = side.run(PERMITS.renew_many([PERMITS.renewal("m:1", HIGH, TTL)]))
    assert isinstance(granted, Granted)
    for answer in (failed, unrenewed):
        assert isinstance(answer, Failed)
        assert f"is used by an aiolock with wire format {version}" in answer.error
    assert side.hash(PERMITS.hash) == before


def test_so_is_a_write_under_it(version: str, side: Side) -> None:
    """Guards `check` beside guard/holders.lua."""
    WRITTEN[version](side, WRITE)
    call = permit(KEYS, "rw", ["order:42"], "m:1", HIGH, FULL).call("order:42", 1)
    with pytest.raises(Failure, match=f"WRONGVERSION {version}"):
        side.run(call)


def test_each_name_says_its_version(side: Side) -> None:
    side.run(PERMITS.request("m:1", TTL, 0, "web-3:4711\nnightly"))
    side.run(PERMITS.release("m:1", TTL, 0, "clean", False))
    assert side.hash(PERMITS.hash)["version"] == "0.3"


def test_what_is_no_hash_is_the_servers_to_refuse(side: Side) -> None:
    side.set(PERMITS.hash, "a string")
    with pytest.raises(Failure, match="WRONGTYPE"):
        side.run(PERMITS.info())


# What earlier versions make of names that this one has written.


def as_released(version: str, call: Call[Any]) -> Call[Any]:
    """The same request, with the script of a release."""
    script = copy.copy(call.script)
    script.lua = (RELEASED / version / "queue" / f"{script.name}.lua").read_text(encoding="utf-8")
    script.sha = f"{script.name} of {version}"
    args = (call.args[0], "", *call.args[1:]) if version == "0.2.0" else call.args  # the channel had two parts
    return Call(call.name, script, call.keys, args)


@pytest.mark.parametrize("name", [PERMITS, WRITE], ids=["semaphore", "rw"])
@pytest.mark.parametrize("held", [True, False])
def test_a_process_of_0_2_gets_an_error(side: Side, name: Queue, held: bool) -> None:
    """That version looks at no version, and took what it did not know for left-overs: it deleted them, and let its own
    in. Kept by `state` in state.lua: the only field that it looks at, whose text it cannot read.
    """
    side.run(name.request("m:1", TTL, HIGH, ""))
    if not held:
        side.run(name.release("m:1", TTL, 0, "clean", False))
    before = side.snapshot(name.keys)
    with pytest.raises(Failure, match="attempt to perform arithmetic"):
        side.run(as_released("0.2.0", name.request("n:1", TTL, 0, "")))
    assert [kept for kept, _ in side.snapshot(name.keys)] == [kept for kept, _ in before]


@pytest.mark.parametrize("name", [Queue(SEMAPHORE, want=2), WRITE], ids=["semaphore", "rw"])
def test_processes_of_0_3_0_share_names(side: Side, name: Queue) -> None:
    """They count the fields, and forget that one; this version does not bring it back, or both would go on to. Kept by
    `state.state` in state.lua: only what makes a hash writes it.
    """
    side.run(name.request("m:1", TTL, HIGH, ""))
    assert "state" in side.hash(name.hash)
    queued = side.run(as_released("0.3.0", name.request("n:1", TTL, 0, "", queue_number=0)))
    assert isinstance(queued, Queued)
    assert "state" not in side.hash(name.hash)
    assert_sound(side, name)
    side.run(name.release("m:1", TTL, 0, "clean", False))
    assert_sound(side, name)
    assert list(holders(side, name)) == ["n:1"]
    side.run(name.request("m:2", TTL, 0, "", queue_number=0))
    side.run(as_released("0.3.0", name.release("n:1", TTL, 0, "clean", False)))
    assert_sound(side, name)
    assert list(holders(side, name)) == ["m:2"]
    assert "state" not in side.hash(name.hash)


def test_slots_beside_processes_of_0_3_0(side: Side) -> None:
    """They let in one that wants slots, have none themselves, and leave those of others as they are. Kept by assign in
    slots.lua: of an owner that has the name already.
    """
    name, says = Queue(SEMAPHORE), wanting_slots("web-3:4711\nnightly #1")
    old = Queue(SEMAPHORE)
    first, _ = side.run(name.request("m:1", TTL, 0, says)), side.run(name.request("m:2", TTL, 0, says))
    side.run(as_released("0.3.0", old.request("n:1", TTL, 0, "old:1")))
    assert isinstance(side.run(name.request("m:3", TTL, 0, says, queue_number=0)), Queued)
    side.run(as_released("0.3.0", old.release("n:1", TTL, 0, "clean", False)))
    third = side.run(name.request("m:3", TTL, 0, says, queue_number=0))
    assert isinstance(first, Granted)
    assert isinstance(third, Granted)
    assert (first.slots, third.slots) == ((0,), (2,))
    assert [slots_of(one.process) for one in holders(side, name).values()] == [(0,), (1,), (2,)]
    side.run(as_released("0.3.0", old.release("m:1", TTL, 0, "clean", False)))
    old_grant = side.run(as_released("0.3.0", old.request("n:2", TTL, 0, "old:1")))
    assert isinstance(old_grant, Granted)
    assert slots_of(holders(side, name)["n:2"].process) == ()
    assert_sound(side, name)
