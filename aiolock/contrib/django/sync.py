"""The manager of synchronous code: of `def` views, management commands, and everything else without an event loop."""

from __future__ import annotations

import threading
from typing import Any

from ...sync import LockManager
from .manager import arguments
from .transactions import until_commit as until_commit
from .transactions import warn

_mutex = threading.RLock()
_opened: tuple[dict[str, Any], LockManager] | None = None


def get_locks() -> LockManager:
    """Return this process's manager for threads, open; the first call of a process connects.

    If Redis is unreachable then, it is open anyway: see `LockManager.open()`. It is made of `settings.AIOLOCK`, as the
    manager of async views is, and closed when the process ends. After a fork the child has one of its own; and so has a
    test that overrides the settings.

    Raises:
        ConfigurationError: the settings cannot work; or this thread runs an event loop.
        BackendError: Redis refuses; the next call tries again.

    Cost: none, except for the first one.

    Example:
        ```python
        from aiolock.contrib.django.sync import get_locks


        def ship(request, order_id):
            with get_locks().lock(f"order:{order_id}", acquire_timeout=5.0) as lease: ...
        ```
    """
    global _opened
    wanted = arguments()
    with _mutex:
        if _opened is not None:
            of, manager = _opened
            if of == wanted and manager._portal.here:
                return manager
            manager.close()
        manager = LockManager(**wanted)
        manager._portal.leaving = warn
        manager.open(strict=False)
        _opened = dict(wanted), manager
        return manager
