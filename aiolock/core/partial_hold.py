"""What an entry holds already, while it waits for the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..errors import LossReason
from .calls import Calls
from .grant import Grant
from .policy import Policy
from .runtime import Runtime
from .term import Term


class PartialHold(Term):
    """A group of names that is held and renewed until the others are held, too.

    Args:
        owner: who has it.
        calls: requests about the group.
        policy: how the whole will be held.
        grant: the server's grant of it.
        runtime: the manager's.
        lost: called once, when it is lost.
    """

    __slots__ = ("_tell",)

    def __init__(
        self,
        owner: str,
        calls: Calls,
        policy: Policy,
        grant: Grant,
        runtime: Runtime,
        lost: Callable[[PartialHold], None],
    ) -> None:
        policy = replace(policy, renew=True, max_hold=None)  # what is said of the hold begins with that
        super().__init__(owner, calls, policy, grant, runtime)
        self._tell = lost

    def _lost(self, reason: LossReason) -> None:
        self._tell(self)
