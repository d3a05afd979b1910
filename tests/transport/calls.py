"""Small scripts that show a test what arrived, how often and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from aiolock.errors import BackendError
from aiolock.scripts.base import Call, Reply, Script

R = TypeVar("R")


def text(reply: Reply) -> str:
    assert isinstance(reply, bytes), reply
    return reply.decode()


def number(reply: Reply) -> int:
    assert isinstance(reply, int), reply
    return reply


ECHO = Script("tests.transport", "echo", text)
APPEND = Script("tests.transport", "append", number)


def echo(word: str | int, unanswered: Callable[[], bool] = lambda: False) -> Call[str]:
    """Answers `word`."""
    return Call("a name", ECHO, (), (word,), unanswered)


def append(value: str | int, unanswered: Callable[[], bool] = lambda: False) -> Call[int]:
    """Appends `value` to the list `seen`."""
    return Call("a name", APPEND, ("seen",), (value,), unanswered)


class Log:
    """A callback that keeps what it gets, and lets a test wait for it."""

    def __init__(self) -> None:
        self.items: list[object] = []
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, item: object = None) -> None:
        self.items.append(item)
        task = asyncio.ensure_future(self._tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def has(self, count: int) -> list[object]:
        """Wait until there are `count`."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: len(self.items) >= count)
        return self.items


async def result(future: asyncio.Future[R]) -> R | BackendError:
    """Return what a call ended with; fail a test that would wait for ever."""
    try:
        async with asyncio.timeout(20):
            return await future
    except BackendError as error:
        return error


async def until(check: Callable[[], object]) -> None:
    """Wait for a change that is not announced."""
    async with asyncio.timeout(10):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
