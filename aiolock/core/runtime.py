"""What a primitive is given: the manager's services, and all that its tasks hold and wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..scripts.lock import LockCalls
from .calls import Contention
from .holding.hold import Hold
from .holding.leases_by_task import LeasesByTask
from .queue_entries import QueueEntries
from .services import Services

if TYPE_CHECKING:
    from ..scripts.queue import QueueCalls


class Closable(Protocol):
    """What tasks wait at, as the closing manager sees it: a gate, or a latch."""

    def signal(self) -> None:
        """The lock may be free."""

    def close(self) -> None:
        """End all waits."""

    def occupied(self) -> bool:
        """Whether a task waits."""


class Runtime(Services):
    """Filled from the manager's entry on, and emptied when it is closed.

    Attributes:
        gates: where tasks wait or hold, by kind and name.
        holds: what is held, by owner.
        leases: the same by task.
        queue_entries: what asks or waits in the servers' queues.
        draining: called when a task has left, while the manager closes.
    """

    def _begin(self) -> None:
        self.gates: dict[tuple[str, str], Closable] = {}
        self.holds: dict[str, Hold] = {}
        self.leases: LeasesByTask = LeasesByTask(self.context)
        self.queue_entries: QueueEntries = QueueEntries()
        self.draining: Callable[[], None] | None = None

    def unbind(self) -> None:
        """Forget the loop; nothing is left of it."""
        self.binding.end()
        self.gates.clear()
        self.holds.clear()
        self.queue_entries.clear()
        self.ending.clear()

    def contended(self, name: str) -> None:
        """See `Services`."""
        turnstile = self.backend.abilities.turnstile
        if turnstile is not None:
            turnstile.note(name)

    def freed(self, kind: str, name: str) -> None:
        """See `Services`."""
        gate = self.gates.get((kind, name))
        if gate is not None:
            gate.signal()


class Kind(NamedTuple):
    """What is known of a primitive by its kind alone.

    Attributes:
        contention: its rule.
        calls: returns requests about a name, for an acquisition with this weight and a name with this capacity.
    """

    contention: Contention
    calls: Callable[[Runtime, str, int, int], LockCalls | QueueCalls]


KINDS: dict[str, Kind] = {}
"""Filled by what knows the primitives."""
