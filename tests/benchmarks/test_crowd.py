"""The statistics over the times at which tasks asked, entered and left."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from benchmarks.contention import Visit, Visits
from benchmarks.crowd import Crowd, summary
from benchmarks.figure import Figure
from benchmarks.lead import lead
from benchmarks.rows.handoff import MUSTS, against, measured


def seen(*times: tuple[float, ...], waiting: tuple[float, ...] = (), tasks: int = 1, until: float = 99.0) -> Visits:
    """What a process saw; each visit is asked, entered, left and perhaps the task."""
    return Visits([Visit(*visit) for visit in times], list(waiting), {}, tasks, until)


def test_a_handoff_is_from_one_process_to_a_waiter_of_another() -> None:
    crowd = Crowd([seen((0.0, 1.0, 2.0), (0.0, 2.5, 3.0), (9.0, 9.1, 9.2)), seen((0.0, 3.25, 4.0))])
    assert crowd.handoffs == [0.25]  # 2 → 2.5 is in one process; at 4 there was no waiter
    assert crowd.share == 1 / 3


def test_with_permits_an_entry_follows_the_leave_so_many_places_before() -> None:
    one, other = seen((0.0, 1.0, 5.0), (0.0, 1.0, 7.0)), seen((0.0, 5.5, 8.0), (0.0, 7.75, 9.0))
    crowd = Crowd([one, other], permits=2)
    assert (crowd.handoffs, crowd.share) == ([0.5, 0.75], 1.0)


def test_overlaps_are_entries_beside_a_running_body() -> None:
    one, other = seen((0.0, 1.0, 4.0), (0.0, 6.0, 7.0)), seen((0.0, 2.0, 2.5), (0.0, 3.0, 3.5), (0.0, 5.0, 5.5))
    assert Crowd([one, other]).overlaps == 2
    assert Crowd([one]).overlaps == 0


def test_a_task_that_never_got_in_waited_too() -> None:
    assert Crowd([seen((0.0, 1.0, 2.0), waiting=(7.0,)), seen()]).waits == [1.0, 7.0]


def test_entries_are_of_each_task_while_all_ask() -> None:
    """Broken by leaving out a task that never got in, and by counting entries after the end."""
    one = seen((0.0, 1.0, 2.0, 0), (2.0, 2.5, 3.0, 0), (3.0, 6.0, 7.0, 0), (0.0, 3.0, 3.5, 1), tasks=2, until=5.0)
    other = seen((0.0, 4.0, 4.5, 0), tasks=2, until=5.0)
    crowd = Crowd([one, other])
    assert crowd.entries == [2, 1, 1, 0]
    assert crowd.evenness == 0.0
    assert crowd.rate == 1.0  # 4 entries from 1 to 5
    assert Crowd([one]).evenness == 0.5


def test_moves_are_entries_after_another_process() -> None:
    one, other = seen((0.0, 1.0, 1.5), (0.0, 2.0, 2.5), (0.0, 4.0, 4.5)), seen((0.0, 3.0, 3.5), (0.0, 5.0, 5.5))
    crowd = Crowd([one, other])
    assert (crowd.moves(0.0, 9.0), crowd.entered(0.0, 9.0)) == (3, 5)
    assert (crowd.moves(2.5, 4.5), crowd.entered(2.5, 4.5)) == (2, 2)


def test_visits_survive_their_way_through_a_pipe() -> None:
    before = seen((0.0, 1.0, 2.0, 3), waiting=(1.0,), tasks=4)
    told = asdict(before)
    assert Visits.from_json({**told, "times": [list(visit) for visit in told["times"]]}) == before


def round_of(handoff: float, entries: tuple[int, int], slow: float = 1.0) -> Crowd:
    """Two processes, a task each, that hand on to each other, with this many entries each, in sections of a second."""
    processes, at = [seen(), seen()], 0.0
    for number in range(sum(entries)):
        process = processes[number % 2 if number < 2 * min(entries) else entries.index(max(entries))]
        process.times.append(Visit(at - slow, at, at + 1 - handoff))
        at += 1
    for process in processes:
        process.until = at
    return Crowd(processes)


def judged(crowd: Crowd, bare: Crowd) -> dict[str, str]:
    figures = against([bare], [crowd], "", MUSTS["lock"])
    return {figure.what: figure.verdict for figure in figures}


def test_the_lock_is_judged_beside_blpop() -> None:
    """Broken by a bound that is missing or points the wrong way."""
    bare = round_of(0.1, (10, 10))
    assert set(judged(bare, bare).values()) == {"aim", "must"}
    assert judged(round_of(0.15, (10, 10)), bare)["hand-off p50 against bare BLPOP"] == "missed"
    assert judged(round_of(0.1, (10, 10), slow=1.6), bare)["wait p99 of a task against bare BLPOP"] == "missed"
    assert judged(round_of(0.1, (10, 14)), bare)["entries of the 2 tasks: least against most"] == "missed"
    late = round_of(0.1, (10, 10))
    for process in late.processes:
        process.until += 1.0
    assert judged(late, bare)["entries/s of all against bare BLPOP"] == "missed"


def test_the_fair_lock_must_be_fast_enough() -> None:
    bare = round_of(0.1, (10, 10))
    (rate,) = [figure for figure in against([bare], [bare], "fair_lock: ", MUSTS["fair_lock"]) if figure.must]
    assert (rate.what, rate.must) == ("fair_lock: entries/s of all against bare BLPOP", 0.9)


def test_a_handoff_stands_beside_its_share() -> None:
    crowd = round_of(0.25, (2, 4))
    notes = {figure.what: figure.note for figure in measured([crowd], "")}
    assert notes["hand-off p50"] == notes["hand-off p99"] == "3 hand-offs, 60 % of entries"
    assert [figure.what for figure in measured([Crowd([seen((0.0, 1.0, 2.0))])], "") if "hand-off" in figure.what] == []


def test_a_summary() -> None:
    bare = round_of(0.1, (10, 10))
    told = summary([round_of(0.2, (10, 12), slow=3.0)], [bare])
    assert (told["least"], told["most"], told["number"], told["stuck"]) == (10, 12, 19, 0)
    assert told["ratio"] == pytest.approx(2.0)
    assert told["wait"] == {"p50": 3.0, "p99": 3.0, "ratio": 3.0}
    assert summary([Crowd([seen((0.0, 1.0, 2.0))])], [bare])["p50"] is None


def test_the_lead_is_against_the_fastest() -> None:
    peers = [{"name": name, "handoff": {"lead": times}} for name, times in (("slow", 2.0), ("quick", 0.9))]
    figure = lead([{"name": "aiolock", "handoff": {}}, *peers, {"name": "gone", "failed": {}}])
    assert figure == Figure(
        "D",
        "entries/s of all against the fastest other library",
        0.9,
        must=1.0,
        note="against each: quick 0.90, slow 2.00",
    )
    assert figure.verdict == "missed"
    assert lead([{"name": "aiolock", "handoff": {}}]) is None
