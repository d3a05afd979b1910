"""Who has a lock, for tasks that share it."""

from __future__ import annotations

from .hold import Hold


class Owner:
    """The owner of a lock, for a child task: `lock.acquire(owner=lease.owner)`. Opaque; valid in this process only."""

    __slots__ = ("_hold",)

    def __init__(self, hold: Hold) -> None:
        self._hold: Hold = hold

    def __repr__(self) -> str:
        return f"<Owner of {self._hold.calls.name!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an Owner cannot leave its process: acquire the lock in the other process instead")
