"""The lease of the decorated function that runs in this thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..lease import Lease

_current: ContextVar[Lease | None] = ContextVar("aiolock.sync.exclusive", default=None)


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

    None outside of one, in one that runs without its lock (`outage="run"`), and in another thread, unless that runs in
    a copy of this one's context. No I/O.
    """
    return _current.get()
