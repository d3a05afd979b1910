"""One name in one process: who holds it, and how holds begin and end. Acquire and release both pass it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

from ..errors import AiolockError
from ..scripts.base import Ending
from ..scripts.outcomes import Released
from ..scripts.queue import QueueCalls
from .holding.hold import Hold
from .holding.level import Level
from .holding.release import Release
from .holding.telling import tell_abandoned, tell_dropped, tell_lost, tell_renewed
from .waiting.handoff import hand_on
from .waiting.local_queue import LocalQueue



class Gate(LocalQueue):
    """The local side of one name, with its holds; made on first use, known to the manager while it is used."""

    __slots__ = ()

    # Holds and their leases.

    def of_task(self, task: asyncio.Task[object] | None) -> tuple[Level, ...]:
        """The leases of `task`, innermost last."""
        return self.runtime.leases.on(self, task)

    def lower(self, hold: Hold, ending: Ending, lease: Level | None = None) -> Release:
        """End one level; at 0 the hold ends, and the name goes to the next of this process if it is its turn.

        Args:
            hold: what ends, or gets less.
            ending: how.
            lease: which level; None for one that has no lease.
        """
        runtime = self.runtime
        release = Release(runtime, hold.calls, hold.owner, hold.ttl_ms, ending, hold.tainted, hold)
        if hold.watchers and lease is not None:
            hold.left(lease)
        if hold.depth != 1:
            if lease is not None:
                runtime.leases.remove(lease)
            if hold.ended:
                release.settle(Released(hold.fence))
            else:
                hold.depth -= 1
                _write_rest(hold, release)
            return release
        hold.ended, hold.depth = True, 0
        try:  # first the request: others wait for that
            passing = (self.waiters or self.entries) and ending == "clean" and hold.reason is None
            if passing and hand_on(self, hold, release):
                release.handed_on = True
            else:
                release.write()
        finally:
            hold.end()
            self.holds -= 1
            runtime.holds.pop(hold.owner, None)
        if not release.handed_on:
            if hold.reason is None:
                self.taken -= 1
            if self.race is not None:
                self.race.released()
            self.settle_down()
        if lease is not None:
            runtime.leases.remove(lease)
        return release

    def lessen(self, lease: Level, weight: int) -> Release:
        """Continue the lease with less of the name: give back the rest now. A lost lease gives nothing back."""
        hold = lease._hold
        lost = hold.check() is not None
        release = Release(self.runtime, hold.calls, hold.owner, hold.ttl_ms, "clean", hold.tainted, hold)
        if not lost:
            lease._calls = cast(QueueCalls, lease._calls).weighing(weight)
            _write_rest(hold, release)
        return release

    def detach(self, lease: Level) -> Release:
        """The lease's hold continues elsewhere: no release, and for waiters here the holder is a stranger."""
        hold = lease._hold
        hold.end()
        self.holds -= 1
        self.runtime.holds.pop(hold.owner, None)
        self.taken -= 1
        release = self.lower(hold, "clean", lease)  # it has ended: nothing is written
        self.settle_down()
        return release

    @property
    def unreachable(self) -> AiolockError | None:
        """Why there is no server, if there is none."""
        return self.runtime.away(*(self.calls.names or (self.calls.name,)))

    def lost(self, hold: Hold) -> None:
        """A hold is lost, and not yet ended: waiters of this process ask the server from now on."""
        self.taken -= 1
        self.settle_down()
        tell_lost(self.runtime, hold)

    def extended(self, hold: Hold, deadline: float, pttl: int, sent_at: float) -> None:
        """A hold was renewed: here is the time to look whether it is still in use."""
        tell_renewed(self.runtime, hold, deadline, pttl, sent_at)
        if not hold.dropped and self.runtime.leases.dropped(hold):
            hold.dropped = True
            tell_dropped(self.runtime, hold)

    def collected(self, hold: Hold) -> None:
        """A lease of `hold` was garbage collected unreleased; called from any thread."""
        loop = self.runtime.binding.loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed: the lock expires by itself
                loop.call_soon_threadsafe(self._lower_collected, hold)

    def expel(self, hold: Hold) -> None:
        """End the hold, unless it guards a block: the manager closes."""
        if any(lease._guard for lease in hold.leases):
            return  # its block still runs: no one may enter before the ttl
        for lease in hold.all_leases():
            lease._give_up("dirty")
        if not hold.ended:
            hold.depth = 1
            self.lower(hold, "dirty")

    def _lower_collected(self, hold: Hold) -> None:
        if not hold.ended:
            self.lower(hold, "dirty")
            if hold.reason is None:
                tell_abandoned(self.runtime, hold, collected=True)


def _write_rest(hold: Hold, release: Release) -> None:
    """Tell the server what the open leases of the hold still need: depth and weight, both absolute."""
    if hold.calls.weight > 1:  # otherwise it cannot get less
        hold.weigh()
        release.calls = hold.calls
    release.write(hold.depth)
