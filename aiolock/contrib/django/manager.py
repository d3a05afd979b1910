"""The manager of each event loop, made from the settings when it is first wanted."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from ...errors import ConfigurationError
from ...manager import LockManager
from ..extra import needs

with needs("django"):
    from django.conf import settings


def arguments() -> dict[str, Any]:
    """Those of a manager, from the settings."""
    given = getattr(settings, "AIOLOCK", None)
    if not isinstance(given, dict):
        raise ConfigurationError("", 'settings.AIOLOCK must be a dict: {"source": "redis://localhost:6379/0"}')
    return given


class _Opening:
    """A manager, and whether it is open."""

    def __init__(self) -> None:
        self.manager = LockManager(**arguments())
        self._once = asyncio.Lock()
        self._opened = False

    async def opened(self) -> LockManager:
        if not self._opened:
            async with self._once:
                if not self._opened:
                    await self.manager.open(strict=False)
                    self._opened = True
        return self.manager


_openings: WeakKeyDictionary[asyncio.AbstractEventLoop, _Opening] = WeakKeyDictionary()


async def get_locks() -> LockManager:
    """Return the manager of the running event loop, open; the first call on a loop connects.

    If Redis is unreachable then, it is open anyway: see `LockManager.open()`. It is made of `settings.AIOLOCK`, and
    closed when `asyncio.run()` ends, as every manager. So it needs no lifespan, which Django has not, and a test has
    one of its own. You may close it yourself; the loop cannot open it again.

    Raises:
        ConfigurationError: the settings cannot work.
        BackendError: Redis refuses; the next call tries again.

    Cancellation: the manager may be open or not, and the next call goes on. Cost: none, except for the first one.

    Example:
        ```python
        async def ship(request, order_id):
            locks = await get_locks()
            async with locks.lock(f"order:{order_id}") as lease: ...
        ```
    """
    loop = asyncio.get_running_loop()
    opening = _openings.get(loop)
    if opening is None:
        opening = _openings[loop] = _Opening()
    return await opening.opened()


def open_manager(_: object = None) -> LockManager:
    """The manager of the running event loop, after `get_locks()`."""
    return _openings[asyncio.get_running_loop()].manager
