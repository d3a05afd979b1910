"""The lease of the decorated function that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

from ..core.lease import Lease

L = TypeVar("L")


class Current(Generic[L]):
    """Under which lease the code runs that asks.

    Args:
        name: of the context variable.
    """

    def __init__(self, name: str) -> None:
        self._lease: ContextVar[L | None] = ContextVar(name, default=None)

    @contextmanager
    def running_under(self, lease: L | None) -> Iterator[None]:
        """A decorated function runs in this block, under this lease; None: without its lock."""
        token = self._lease.set(lease)
        try:
            yield
        finally:
            self._lease.reset(token)

    def get(self) -> L | None:
        """That of the innermost such block."""
        return self._lease.get()


_current = Current[Lease]("aiolock.exclusive")
running_under: Callable[[Lease | None], AbstractContextManager[None]] = _current.running_under


def current_lease() -> Lease | None:
    """Return the lease of the innermost decorated function that runs: `current_lease().fence` for what you write to.

    None outside of one, and in one that runs without its lock (`outage="run"`). A task that was started in a decorated
    function sees that function's lease, even after its end. No I/O.
    """
    return _current.get()
