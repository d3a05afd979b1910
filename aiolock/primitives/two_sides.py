"""What has a side for readers and one for the writer."""

from __future__ import annotations

from typing import Any

from ..clock import Clock, format_seconds
from ..usage import TwoSides as Base


class TwoSides(Base):
    """A base of read-write locks. Each side sees the whole."""

    __slots__ = ("__weakref__", "read", "write")

    write: Any

    @property
    def name(self) -> str:
        """What is locked."""
        return str(self.write.name)

    @property
    def clock(self) -> Clock:
        """The clock that its leases live by: let your own code wait by it, and a test can advance it."""
        clock: Clock = self.write.clock
        return clock

    async def is_locked(self) -> bool:
        """Return True if it is held for reading or writing. Cost: one round trip."""
        return await self.write.info() is not None

    async def force_release(self) -> bool:
        """End all holds, as a side's `force_release()` does. Return True if it was held. Cost: one round trip."""
        return bool(await self.write.force_release())

    def __reduce__(self) -> tuple[object, ...]:
        reduced: tuple[object, ...] = self.write.__reduce__()  # raises
        return reduced

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} ttl={format_seconds(self.write._policy.ttl)}>"
