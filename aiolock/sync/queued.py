"""What the primitives whose queue is on the server have in common, for threads."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .portal import Portal


class Queueing:
    """A base of what several can hold."""

    __slots__ = ()

    _core: Any
    _portal: Portal

    def request_release(self, grace: float | timedelta = 0.0) -> bool:
        """Ask all who hold it now to finish: their `lease.wanted` becomes true.

        Args:
            grace: seconds to wait until all these holds have ended; 0 only asks.

        Returns:
            True if they have, or if nobody held it.

        Raises:
            BackendError: Redis is unreachable or refuses.
            ConfigurationError: a grace that cannot be; a store without scripts; the manager is not open, or closes.

        Cost: one round trip for every 250 holders, again and again while it waits.
        """
        return bool(self._portal.call(self._core.name, lambda: self._core.request_release(grace)))

    def force_release(self) -> bool:
        """End all holds, whoever has them; the holders are notified at once.

        Returns:
            True if it was held.

        Raises:
            BackendError: Redis is unreachable or refuses.

        Cost: one round trip for every 250 holders; no one enters between these.
        """
        return bool(self._portal.call(self._core.name, self._core.force_release))
