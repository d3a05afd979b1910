"""The order of what waits to be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiolock.backends.redis.channels import Unsubscribe
from aiolock.backends.redis.outbox import Outbox
from aiolock.errors import BackendError
from aiolock.scripts.base import Call

from .calls import echo

LOST = BackendError("", "lost", transient=True)


def request(word: str, unanswered: Callable[[], bool] = lambda: False) -> Call[Any]:
    call = echo(word, unanswered)
    call.future = asyncio.get_running_loop().create_future()
    return call


def words(outbox: Outbox) -> list[Any]:
    return [item.args[0] if isinstance(item, Call) else "unsubscribe" for item in outbox.take()]


async def test_again_comes_before_what_was_never_written() -> None:
    outbox = Outbox()
    outbox.put(request("new 1"))
    outbox.unanswered(request("old 1", lambda: True), LOST)
    outbox.unanswered(request("old 2"), LOST)
    outbox.unanswered(request("old 3", lambda: True), LOST)
    outbox.put(request("new 2"))
    assert not outbox.empty
    assert words(outbox) == ["old 1", "old 3", "new 1", "new 2"]
    assert outbox.empty
    assert words(outbox) == []


async def test_nothing_overtakes_while_an_owner_is_asked() -> None:
    outbox = Outbox()
    asked: list[bool] = []
    outbox.unanswered(request("old", lambda: asked.append(not outbox.empty) or True), LOST)
    assert asked == [True]


async def test_calls_from_callbacks_keep_their_place() -> None:
    outbox = Outbox()

    def also(answer: bool, word: str) -> Callable[[], bool]:
        def unanswered() -> bool:
            outbox.put(request(word))
            return answer

        return unanswered

    outbox.put(request("new"))
    given_up = request("a", also(False, "instead of a"))
    given_up.settle = lambda outcome: outbox.put(request("settled a"))
    outbox.unanswered(given_up, LOST)
    outbox.unanswered(request("b", also(True, "after b")), LOST)
    assert words(outbox) == ["instead of a", "settled a", "b", "after b", "new"]
    assert outbox.empty
    assert given_up.future.exception() is LOST


async def test_a_lost_connections_subscriptions_are_forgotten() -> None:
    outbox = Outbox()
    outbox.put(Unsubscribe(b"c"))
    outbox.put(request("kept"))
    outbox.disconnected()
    assert words(outbox) == ["kept"]


async def test_empty_means_that_nothing_can_be_overtaken() -> None:
    outbox = Outbox()
    told: list[bool] = []

    def again() -> bool:
        outbox.take()  # another call came that has to leave at once
        told.append(outbox.empty)
        return False

    outbox.unanswered(request("dropped", again), LOST)
    assert told == [False]
    assert outbox.empty
    outbox.unanswered(request("kept", lambda: True), LOST)
    assert not outbox.empty
    outbox.disconnected()
    assert not outbox.empty
    outbox.take()
    assert outbox.empty
    outbox.put(Unsubscribe(b"c"))
    outbox.disconnected()
    assert outbox.empty
