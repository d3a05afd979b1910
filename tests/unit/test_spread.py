"""A request about several places: its parts are written at once, and make one result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from aiolock import BackendError
from aiolock.backends.spread import spread
from aiolock.scripts.base import Call
from aiolock.scripts.joint import JointCall
from aiolock.scripts.lock import RELEASE


class Sum(JointCall[int]):
    """Adds up what its three parts answer; one that says 100 is enough."""

    def __init__(self) -> None:
        super().__init__("a + b + c", [Call(name, RELEASE, (name,), ()) for name in "abc"], add)
        self.told: list[int | BackendError] = []
        self.settle = self.told.append

    def answer(self, at: int, result: int | BackendError, sent_at: float = 1.0) -> None:
        part = self.parts[at]
        part.writes, part.sent_at = 1, sent_at
        assert part.settle is not None
        part.settle(result)


def add(results: Sequence[Any]) -> int | BackendError | None:
    if 100 in results:
        return 100
    failed = [result for result in results if isinstance(result, BackendError)]
    return failed[0] if failed else None if None in results else sum(results)


async def test_the_last_answer_makes_the_result() -> None:
    """Which counts from the earliest write. Kept by _Spread._join: `min`."""
    call, written = Sum(), []
    future = call.future = asyncio.get_running_loop().create_future()
    spread(call, written.append)
    assert written == list(call.parts)
    for at, sent_at in ((1, 5.0), (0, 7.0), (2, 6.0)):
        assert not future.done()
        call.answer(at, 1, sent_at)
    assert (await future, call.told, call.sent_at) == (3, [3], 5.0)


@pytest.mark.parametrize("first", [100, BackendError("", "away", transient=True)])
async def test_it_is_settled_once(first: int | BackendError) -> None:
    """Kept by _Spread._settle: `_over`."""
    call = Sum()
    future = call.future = asyncio.get_running_loop().create_future()
    spread(call, lambda part: None)
    call.answer(1, first)
    assert call.told == [first]
    call.answer(0, 1)
    call.answer(2, 100)
    assert call.told == [first]
    assert future.done()


async def test_it_says_what_becomes_of_an_unanswered_part() -> None:
    call = Sum()
    call.unanswered = lambda: True
    spread(call, lambda part: None)
    assert [part.unanswered() for part in call.parts] == [True] * 3


def test_it_is_taken_back_if_no_part_was_written() -> None:
    call = Sum()
    call.parts[1].writes = 1
    assert not call.withdraw()
    assert [part.withdrawn for part in call.parts] == [True, False, True]
    assert Sum().withdraw()


def test_it_becomes_another() -> None:
    call, other = Sum(), Sum()
    other.parts[2].args = ("later",)
    call.become(other)
    assert [part.args for part in call.parts] == [(), (), ("later",)]
