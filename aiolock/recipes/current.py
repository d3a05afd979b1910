"""The lease of the decorated function that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..core.lease import Lease

_current: ContextVar[Lease | None] = ContextVar("aiolock.exclusive", default=None)


@contextmanager
def running_under(lease: Lease | None) -> Iterator[None]:
    """A decorated function runs in this block, under this lease; None: without its lock."""
    token = _current.set(lease)
    try:
        yield
    finally:
        _current.reset(token)


def current_lease() -> Lease | None:
    """Return the lease of the innermost decorated function that runs: `current_lease().fence` for what you write to.

    None outside of one, and in one that runs without its lock (`outage="run"`). A task that was started in a decorated
    function sees that function's lease, also after its end. No I/O.
    """
    return _current.get()
