"""Who the master is, as far as Sentinels have said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ...clock import Clock
from ...errors import BackendError
from ...log import Log
from ..redis.seeds import Address
from ..redis.sentinels import Report
from .witness import SPREAD

logger: Log = Log("aiolock.sentinel")


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
        self._disputed: frozenset[Address] = frozenset()
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
            self._left, self._until = address, self._clock.now() + SPREAD

    def choose(self, reports: Sequence[Report], sentinels: int) -> Address:
        """Take note of what all say that answered, of so many.

        Whom a majority names counts: of all, or of those that answer if these agree. So a Sentinel of other servers in
        the list cannot lead away, and a new master counts once it is known to most, which takes a tenth of a second.
        An older configuration than was known counts only if a majority names it, and no one knows the newer one: they
        were set up again.

        Raises:
            BackendError: those that answer have an older configuration, disagree, or do not know yet.
        """
        named = Counter(report.master for report in reports)
        address, votes = named.most_common(1)[0]
        agreed = votes * 2 > sentinels
        said = self._compare(reports)
        if not agreed and len(named) > 1:
            if self.address is None or self.address not in named:
                raise BackendError("", said, transient=True)
            address = self.address
        epoch = max(report.epoch for report in reports if report.master == address)
        if epoch >= self.epoch or not any(
            report.master == self.address and report.epoch >= self.epoch for report in reports
        ):
            self._take(address, epoch, agreed)
        if self._left is not None and self._clock.now() < self._until:
            raise BackendError(
                "", "the master was replaced, and the Sentinels that answer do not know it", transient=True
            )
        assert self.address is not None
        return self.address

    def _take(self, address: Address, epoch: int, agreed: bool) -> None:
        if epoch < self.epoch and not agreed:
            raise BackendError("", "the Sentinels that answer only know an older master", transient=True)
        if epoch < self.epoch or (epoch == self.epoch and agreed and address != self.address):
            self.epoch = -1
        self.learn(address, epoch)

    def _compare(self, reports: Sequence[Report]) -> str:
        """Say who names whom; and warn if they disagree though none is replacing the master."""
        masters = sorted({report.master for report in reports})
        each = [
            f"{master} ({', '.join(report.sentinel for report in reports if report.master == master)})"
            for master in masters
        ]
        said = f"the Sentinels disagree about the master: {' or '.join(each)}"
        disputed = frozenset(masters) if len(masters) > 1 else frozenset()
        if disputed - self._disputed and not any(report.failing_over for report in reports):
            text = "%s; most of those that you listed decide. If this lasts, take out whoever watches other servers"
            logger.warning(text, said)
        self._disputed = disputed
        return said
