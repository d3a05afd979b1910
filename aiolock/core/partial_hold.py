"""What an entry holds already, while it waits for the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..clock import Clock
from ..errors import LossReason
from .calls import Calls
from .grant import Entry, Grant
from .policy import Policy
from .scheduler import Scheduler
from .term import Term


@dataclass(slots=True)
class Terms:
    """How it is held: see `Asker`."""

    calls: Calls
    policy: Policy
    metadata: str


@dataclass(slots=True)
class Group:
    """What was granted: see `Entry`."""

    owner: str
    tainted: bool
    asker: Terms


class PartialHold(Term):
    """A group of names that is held and renewed until the others are held, too.

    Args:
        entry: what it was granted to.
        calls: requests about the group.
        grant: the server's grant of it.
        clock: the clock of all its times.
        scheduler: calls it when it is due.
        lost: called once, when it is lost.
    """

    __slots__ = ("_tell",)

    def __init__(
        self,
        entry: Entry,
        calls: Calls,
        grant: Grant,
        clock: Clock,
        scheduler: Scheduler,
        lost: Callable[[PartialHold], None],
    ) -> None:
        policy = replace(entry.asker.policy, renew=True, max_hold=None)  # what is said of the hold begins with that
        terms = Terms(calls, policy, entry.asker.metadata)
        super().__init__(Group(entry.owner, entry.tainted, terms), grant, clock, scheduler)
        self._tell = lost

    def _lost(self, reason: LossReason) -> None:
        self._tell(self)
