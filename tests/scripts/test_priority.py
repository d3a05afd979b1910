"""A place in the queue is a minute earlier for each step of priority, which is part of the owner's id."""

from __future__ import annotations

import time

import pytest

from aiolock.owner import STEP, came_at
from aiolock.scripts.bid import Bid
from aiolock.scripts.outcomes import Granted, Passed, Queued
from tests.support import locks as looks
from tests.support.lock_calls import LIVENESS, TTL, Lock
from tests.support.queues import FAIR, SEMAPHORE, Queue, assert_sound
from tests.support.scripting import Side

from .test_queue_version import as_released

NAME = Lock()
SECOND = 1_000_000


def ago(seconds: float) -> int:
    """The place of one that has waited for so long."""
    return int((time.time() - seconds) * SECOND)


def lock_rank(side: Side, owner: str, number: int = 0) -> int:
    answer = side.run(NAME.acquire(Bid(owner, TTL, 0, "", LIVENESS, True, number)))
    assert isinstance(answer, Queued)
    return answer.rank


def queue_rank(side: Side, owner: str, number: int = 0) -> int:
    answer = side.run(Queue(FAIR).request(owner, TTL, 0, "", queue_number=number))
    assert isinstance(answer, Queued)
    return answer.rank


@pytest.mark.parametrize("rank", [lock_rank, queue_rank])
def test_nobody_starves(side: Side, rank: object) -> None:
    """Who has waited for longer than the steps between them is not passed."""
    side.run(NAME.acquire(Bid("h:1", TTL, 0, "")))
    side.run(Queue(FAIR).request("h:1", TTL, 0, ""))
    for owner, number, place in (
        ("a:1", ago(3 * STEP + 20), 1),
        ("a:2", ago(3 * STEP - 20), 2),
        ("b:1", 0, 3),
        ("b:2p3", 0, 2),  # before all that have waited for less than three minutes
        ("b:3p2", 0, 4),
        ("b:4p2~900", 0, 5),
        ("b:5p3", 0, 3),
        ("b:5p3", 0, 3),  # a copy of the request finds its place
        ("b:6", 0, 8),
    ):
        assert rank(side, owner, number) == place, owner  # type: ignore[operator]


@pytest.mark.parametrize("rank", [lock_rank, queue_rank])
def test_who_was_forgotten_comes_back_to_its_place(side: Side, rank: object) -> None:
    """Its number has the steps in it already."""
    side.run(NAME.acquire(Bid("h:1", TTL, 0, "")))
    side.run(Queue(FAIR).request("h:1", TTL, 0, ""))
    assert rank(side, "a:1", ago(30)) == 1  # type: ignore[operator]
    assert rank(side, "b:1p9", ago(20)) == 2  # type: ignore[operator]


def test_a_turn_that_ends(side: Side) -> None:
    """The heir's place has its steps. Kept by transfer_pass.lua, which leaves this to transfer."""
    held = side.run(NAME.acquire(Bid("h:1", TTL, 0, "")))
    assert isinstance(held, Granted)
    for owner in ("b:1", "c:1"):
        lock_rank(side, owner)
    for manager in ("b", "c"):
        side.listen(NAME.manager(manager))
    passed = side.run(NAME.transfer("h:1", held.fence, Bid("h:2p4", TTL, 0, "", LIVENESS), 1, False))
    assert isinstance(passed, Passed)
    assert looks.waiting(side, NAME.name) == ["h:2p4", "c:1"]
    assert came_at("h:2p4", passed.queue_number) == pytest.approx(time.time() * SECOND, abs=20 * SECOND)


def test_a_queue_lasts_however_early_its_places_are(side: Side) -> None:
    """Kept by join.lua: it goes by when one came whether the keys must live on."""
    side.run(NAME.acquire(Bid("h:1", TTL, 0, "")))
    lock_rank(side, "a:1", ago(40))
    for key in (NAME.queue, NAME.alive):
        side.shorten(key, 20_000)
    lock_rank(side, "a:2p100")
    assert side.pttl(NAME.queue) > 50_000
    assert side.pttl(NAME.alive) > 50_000


def test_one_that_fits_passes_one_that_does_not(side: Side) -> None:
    """Kept by ask.lua: it is queued before it is decided who comes next."""
    one, two, three = (Queue(SEMAPHORE, want=want) for want in range(3))
    side.run(two.request("m:1", TTL, 0, ""))
    assert isinstance(side.run(three.request("m:2", TTL, 0, "", queue_number=0)), Queued)
    assert isinstance(side.run(one.request("m:3", TTL, 0, "", queue_number=0)), Queued)
    assert isinstance(side.run(one.request("m:4p1", TTL, 0, "", queue_number=0)), Granted)
    assert_sound(side, one)


def test_those_that_come_in_one_request_keep_their_order(side: Side) -> None:
    """Kept by queue.lua: `serial`."""
    name = Queue(FAIR)
    side.run(name.request("h:1", TTL, 0, ""))
    bids = [Bid(f"m:{number}p1", TTL, 0, "", LIVENESS) for number in (9, 10, 11)]
    answers = side.run(name.refresh_many([name.refresh(bid) for bid in bids]))
    assert [answer.rank for answer in answers] == [1, 2, 3]


def test_beside_processes_of_0_3_0(side: Side) -> None:
    """They let in whom the place says."""
    name = old = Queue(FAIR)
    side.run(as_released("0.3.0", old.request("m:1", TTL, 0, "old:1")))
    queue_rank_of_old = side.run(as_released("0.3.0", old.request("m:2", TTL, 0, "old:2", queue_number=0)))
    assert isinstance(queue_rank_of_old, Queued)
    assert queue_rank(side, "n:1p1") == 1
    side.run(as_released("0.3.0", old.release("m:1", TTL, 0, "clean", False)))
    assert isinstance(side.run(name.request("n:1p1", TTL, 0, "", queue_number=0)), Granted)
    assert_sound(side, name)
