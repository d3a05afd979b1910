"""An awaitable that also works as a coroutine: `asyncio.create_task` and anyio's groups want coroutines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar

T_co = TypeVar("T_co", covariant=True)


class OnDemand(Coroutine[object, object, T_co]):
    """Stands for a coroutine that is created when it first runs, so that you may leave it unawaited."""

    __slots__ = ("_running",)

    _running: Coroutine[object, object, T_co] | None

    @abstractmethod
    def _start(self) -> Coroutine[object, object, T_co]:
        """Create the coroutine."""

    def send(self, value: object) -> object:
        """Run to the next suspension, like a coroutine's `send`."""
        if self._running is None:
            self._running = self._start()
        return self._running.send(value)

    def throw(self, *error: Any) -> object:
        """Raise an exception where it is suspended, like a coroutine's `throw`."""
        if self._running is None:
            self._running = self._start()
        return self._running.throw(*error)

    def close(self) -> None:
        """End it where it is suspended, like a coroutine's `close`."""
        if self._running is not None:
            self._running.close()

    def __dir__(self) -> list[str]:
        # Do not offer people what event loops call.
        return [name for name in super().__dir__() if name not in ("close", "send", "throw")]
