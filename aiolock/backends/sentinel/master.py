"""Who the master is, as far as Sentinels have said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ...clock import Clock
from ...errors import BackendError
from ..redis import Address, Report

_HELLO = 3.0
"""Seconds after which every Sentinel has told the others what it knows."""


class Master:
    """The newest configuration that was heard of. An old master is not used again.

    Args:
        clock: for how long a message counts.
        changed: told when a newer configuration names another server.

    Attributes:
        address: where it is; None until a Sentinel said so.
        epoch: how often it was replaced.
    """

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._left: Address | None = None
        self._until = 0.0
        self.address: Address | None = None
        self.epoch: int = -1

    def learn(self, address: Address, epoch: int) -> None:
        """Take note of what one Sentinel says."""
        if epoch > self.epoch:
            before, self.address, self.epoch = self.address, address, epoch
            self._left = None
            if before is not None and before != address:
                self._changed()

    def leave(self, address: Address) -> None:
        """A Sentinel has replaced the master there; the others hear of it within two seconds."""
        if address == self.address:
            self._left, self._until = address, self._clock.now() + _HELLO

    def choose(self, reports: Sequence[Report], sentinels: int) -> Address:
        """Take note of what all say that answered, of so many.

        The newest configuration counts: a majority of the Sentinels has agreed to each. An older one than was known,
        or another server in the same one, counts only if a majority names it: they were set up anew.

        Raises:
            BackendError: those that answer have an older configuration, or do not know yet.
        """
        newest = max(report.epoch for report in reports)
        named = Counter(report.master for report in reports if report.epoch == newest)
        address, votes = named.most_common(1)[0]
        agreed = votes * 2 > sentinels
        if newest < self.epoch and not agreed:
            raise BackendError("", "the Sentinels that answer only know an older master", transient=True)
        if newest < self.epoch or (newest == self.epoch and agreed and address != self.address):
            self.epoch = -1
        self.learn(address, newest)
        if self._left is not None and self._clock.now() < self._until:
            raise BackendError(
                "", "the master was replaced, and the Sentinels that answer do not know it", transient=True
            )
        assert self.address is not None
        return self.address
