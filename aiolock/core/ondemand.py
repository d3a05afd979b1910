"""An awaitable that a task can be made of, too: `asyncio.create_task` and anyio's groups want coroutines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar

T_co = TypeVar("T_co", covariant=True)


class OnDemand(Coroutine[object, object, T_co]):
    """Stands for a coroutine that is made when it is first run, so that one that is never awaited is no mistake."""

    __slots__ = ("_running",)

    _running: Coroutine[object, object, T_co] | None

    @abstractmethod
    def _start(self) -> Coroutine[object, object, T_co]:
        """Make the coroutine."""

    def send(self, value: object) -> object:
        """Run to the next suspension, as a coroutine's `send`."""
        if self._running is None:
            self._running = self._start()
        return self._running.send(value)

    def throw(self, *error: Any) -> object:
        """Raise an exception where it is suspended, as a coroutine's `throw`."""
        if self._running is None:
            self._running = self._start()
        return self._running.throw(*error)

    def close(self) -> None:
        """End it where it is suspended, as a coroutine's `close`."""
        if self._running is not None:
            self._running.close()

    def __dir__(self) -> list[str]:
        # What event loops call is nothing to offer to people.
        return [name for name in super().__dir__() if name not in ("close", "send", "throw")]
