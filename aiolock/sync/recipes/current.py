"""The lease of the decorated function that runs in this thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from ...recipes.current import Current
from ..lease import Lease

_current = Current[Lease]("aiolock.sync.exclusive")
running_under: Callable[[Lease | None], AbstractContextManager[None]] = _current.running_under


def current_lease() -> Lease | None:
    """Return the lease of the innermost decorated function that runs: `current_lease().fence` for what you write to.

    None outside of one, in one that runs without its lock (`outage="run"`), and in another thread, unless that runs in
    a copy of this one's context. No I/O.
    """
    return _current.get()
