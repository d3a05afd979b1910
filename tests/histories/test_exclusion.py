"""Who may be inside at the same time: histories by hand, and drawn ones that are also judged moment by moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import examples

from .journal import Event
from .models import exclusion
from .story import act, fault, found, history, killed, plan, stalled, stay

ONE, TWO = stay(1, "lock", "a", 1, 3), stay(2, "lock", "a", 2, 4)
LOST = stay(1, "lock", "a", 1, 3, how="lost", reason="LOOP_BLOCKED")
WINDOW = {"excuses": 1.0}


@pytest.mark.parametrize(
    "told",
    [
        [ONE, stay(2, "lock", "a", 3, 4)],
        [ONE, stay(2, "lock", "b", 2, 4)],
        [ONE, stay(2, "write", "a", 2, 4)],
        [ONE, stay(2, "multi", "bc", 2, 4)],
        [LOST, TWO, stalled(1, 1.5, 2.9)],
        [LOST, TWO, stalled(1, 1.5, 2.0), stalled(1, 2.05, 2.95)],
        [ONE, TWO, fault(1.5, 2.0, **WINDOW)],
        [stay(1, "lock", "a", 1, None), stay(2, "lock", "a", 1.5, 3), killed(1, 1.2)],
    ],
    ids=[
        *("one after the other", "two names", "two kinds", "other names", "one stood still", "it stood still twice"),
        *("the window of a failover", "one was killed"),
    ],
)
def test_a_mutex_that_is_one(told: list[list[Event]]) -> None:
    assert "mutex" not in found(*told)


@pytest.mark.parametrize(
    "told",
    [
        [ONE, TWO],
        [ONE, stay(2, "fair", "a", 2, 4)],
        [ONE, stay(2, "multi", "ab", 2, 4)],
        [ONE, TWO, stalled(1, 1.5, 3.0)],
        [LOST, TWO, stalled(1, 1.5, 2.5)],
        [LOST, TWO, stalled(1, 2.5, 3.0)],
        [LOST, TWO, stalled(2, 1.5, 3.0)],
        [ONE, TWO, fault(1.0, 1.5, excuses=0.0)],
        [ONE, TWO, fault(1.0, 1.5, excuses=0.6)],
        [ONE, TWO, fault(1.0, 3.0, excuses=1.0, names=["b"])],
        [stay(1, "lock", "a", 1, None, writes=[(2.5, True)]), TWO, killed(1, 3.0)],
    ],
    ids=[
        *("two", "a fair one, too", "a multi lock, too", "it stood still, and did not lose it"),
        *("it is in for long after it stood still", "it stood still too late", "the other stood still"),
        *("a fault that excuses nothing", "a window that is too short", "a window of another name"),
        "one was killed later",
    ],
)
def test_a_mutex_that_is_none(told: list[list[Event]]) -> None:
    find = found(*told)["mutex"]
    assert "together with" in find.words
    assert {event["pid"] for event in find.events} == {1, 2}
    assert str(find).count("\n") == len(find.events)


def test_a_reentrant_mutex() -> None:
    """What is nested takes nothing, and the last one to leave ends it."""
    outer, inner = stay(1, "lock", "a", 1, 2, 5, op=71), stay(1, "lock", "a", 1.5, 3, 5, op=72, outer=71)
    assert not found(outer, inner, stay(2, "lock", "a", 3, 4))
    assert "mutex" in found(outer, inner, stay(2, "lock", "a", 2.5, 4))


def test_a_read_write_lock() -> None:
    readers = [stay(pid, "read", "a", 1, 3, 7) for pid in (1, 2, 3)]
    assert not found(*readers, stay(4, "write", "a", 3, 4, 9))
    assert "read-write lock" in found(*readers, stay(4, "write", "a", 2.9, 4, 9))
    assert "read-write lock" in found(stay(4, "write", "a", 1, 3, 9), stay(5, "write", "a", 2, 4, 10))


def test_a_writer_that_reads_and_goes_on_reading() -> None:
    write, read = stay(1, "write", "a", 1, 2, 9, op=81), stay(1, "read", "a", 1.5, 4, 9, op=82, outer=81)
    assert not found(write, read, stay(2, "read", "a", 2.5, 3, 9))
    assert "read-write lock" in found(write, read, stay(2, "read", "a", 1.7, 3, 9))
    assert "read-write lock" in found(write, read, stay(2, "write", "a", 3, 5, 10))


def test_a_semaphore() -> None:
    first = stay(1, "permits", "s", 1, 4, weight=2, permits=3)
    assert not found(first, stay(2, "permits", "s", 2, 3, permits=3))
    assert "semaphore" in found(first, stay(2, "permits", "s", 2, 3, weight=2, permits=3))
    part = stay(1, "permits", "s", 1, 4, weight=2, permits=3, kept=[(1.5, 1)])
    assert not found(part, stay(2, "permits", "s", 2, 3, weight=2, permits=3))
    assert "semaphore" in found(part, stay(2, "permits", "s", 1.2, 3, weight=2, permits=3))


def test_slots() -> None:
    first = stay(1, "permits", "s", 1, 4, weight=2, permits=3, slots=(0, 1))
    assert not found(first, stay(2, "permits", "s", 2, 3, permits=3, slots=(2,)))
    assert not found(first, stay(2, "permits", "s", 4, 5, permits=3, slots=(0,)))
    assert "slots" in found(first, stay(2, "permits", "s", 2, 3, permits=3, slots=(1,)))
    assert "slots" in found(stay(2, "permits", "s", 2, 3, permits=3, slots=(3,)))
    part = stay(1, "permits", "s", 1, 4, weight=2, permits=3, slots=(0, 1), kept=[(1.5, 1)])
    assert not found(part, stay(2, "permits", "s", 2, 3, permits=3, slots=(1,)))
    assert "slots" in found(part, stay(2, "permits", "s", 2, 3, permits=3, slots=(0,)))


def test_a_ticket_keeps_the_name() -> None:
    given, taken = (
        stay(1, "lock", "a", 1, 2, detached={"ticket": "t"}),
        stay(2, "resume", "a", 5, 6, asked=4.9, ticket="t"),
    )
    assert not found(given, taken)
    assert "mutex" in found(given, taken, stay(3, "lock", "a", 3, 4))
    assert not found(given, taken, stay(3, "lock", "a", 3, 4, 550), fault(2, 5, **WINDOW)).keys() & {"mutex"}


KEPT = stay(1, "lock", "a", 1, 2, kept_until=4.0)
FORCED = act(3, "force", "a", 2.5, 2.6)


def test_what_stays_taken() -> None:
    """Also if its process died; not once it was freed by force, or forgotten. Kept by `kept_until` in `_stays`."""
    late, early = stay(2, "lock", "a", 4, 5), stay(2, "lock", "a", 3, 5)
    assert not found(KEPT, late)
    assert "mutex" in found(KEPT, early)
    assert "mutex" in found(stay(1, "lock", "a", 1, None, kept_until=4.0), early, killed(1, 2.0))
    assert not found(KEPT, early, FORCED)
    assert "mutex" in found(KEPT, early, act(3, "force", "b", 2.5, 2.6))
    assert not found(KEPT, early, fault(2.2, 2.4, loses=True))
    assert "mutex" in found(KEPT, early, fault(2.2, 2.4))


def test_what_was_ended_by_force() -> None:
    """Its holder learns of it soon. Kept by `History.forced`."""
    limits = plan(ttl=3.0, request_timeout=1.0)
    first = stay(1, "lock", "a", 1, 9, 5, how="lost", reason="REVOKED")
    assert not found(limits, first, stay(2, "lock", "a", 3, 4, 6), FORCED)
    assert "mutex" in found(limits, first, stay(2, "lock", "a", 3, 4, 6))
    assert "mutex" in found(limits, first, stay(2, "lock", "a", 6, 7, 8), FORCED)


moments = st.integers(0, 12).map(float)
stays = st.tuples(st.integers(1, 3), st.integers(1, 2), moments, st.integers(1, 6), st.booleans())
stalls = st.tuples(st.integers(1, 3), moments, st.integers(1, 4))


@examples(100)
@given(st.lists(stays, max_size=6), st.lists(stalls, max_size=3), st.lists(st.tuples(moments, moments), max_size=1))
def test_every_moment(
    held: list[tuple[int, int, float, int, bool]],
    stood: list[tuple[int, float, int]],
    windows: list[tuple[float, float]],
) -> None:
    """A sweep finds what a look at each moment finds. A stall counts for a tenth of a second longer than it lasts."""
    told = [
        stay(pid, "permits", "s", since, since + long, weight=weight, permits=3, how="lost" if lost else "done")
        for pid, weight, since, long, lost in held
    ]
    told += [[stalled(pid, since, since + long)] for pid, since, long in stood]
    told += [fault(since, until, excuses=0.5) for since, until in windows if since < until]

    def counts(at: float) -> int:
        if any(since < at < until + 0.5 for since, until in windows if since < until):
            return 0
        return sum(
            weight
            for pid, weight, since, long, lost in held
            if since < at < since + long
            and not (lost and any(pid == who and begin < at < begin + last + 0.1 for who, begin, last in stood))
        )

    crowded = any(counts(tick / 20) > 3 for tick in range(1, 400) if tick % 20 and tick % 2)
    assert (exclusion.check(history(*told)) is not None) == crowded
