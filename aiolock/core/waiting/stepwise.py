"""How one owner gets to hold names in several groups, those of a slot or part of them: one after the other."""

from __future__ import annotations

from dataclasses import replace
from logging import WARNING
from typing import TYPE_CHECKING, Any, cast

from ...errors import AiolockError, BackendError
from ...log import Line, Log
from ...scripts.base import Part
from ...scripts.multi import MultiCalls
from ...scripts.outcomes import AcquireOutcome, Failed, Granted, Missing, Passed, Refused, Renewed
from ..calls import Batch, Calls, Contention
from ..holding.hold import Hold
from ..renewals import Renewable
from ..services import Services
from .gathering import Gathering
from .wait import ASKING

if TYPE_CHECKING:
    from .local_queue import LocalQueue
    from .waiter import Waiter


LOST_PART: Line = Line(
    Log("aiolock.queue"),
    WARNING,
    "lost %(part)r while waiting for the rest of lock %(lock_name)r, asking for all of it again: %(explanation)s",
    "lost parts of %(count)d more locks while waiting for the rest: %(lock_names)s",
)


class Stepwise(Gathering):
    """An entry that wants names in several groups.

    No request reaches two slots, or has more names than a server looks at in a millisecond. So it takes the groups one
    after the other, each as `Gathering` does: first that of the lowest slot, and in a slot that of the first names. All
    processes have the same order of names, so no two of them ever wait for each other.
    Meanwhile it holds, and renews, the groups that it has. If one of them is lost, it returns all of them at once,
    and the process asks again.

    Each group has a fence of its own, the last one's is the greatest. When it has them all it raises the others to
    that, in one renewal of all: so there is one fence, greater than every earlier one of each name and less than every
    later one, whoever takes that name alone. That renewal also proves that all are held at the same time, for the whole
    ttl.

    Args:
        queue: the names' local queue.
        owner: the id, the same in all slots.
        asker: the waiter whose options it asks with.
        waiter: the only one that can take it; None for the first of the process when it is granted.
    """

    __slots__ = ("_abandoned", "_asked", "_held")

    def __init__(self, queue: LocalQueue, owner: str, asker: Waiter, waiter: Waiter | None) -> None:
        super().__init__(queue, owner, asker, waiter)
        self._held: tuple[Hold, ...] = ()
        self._asked = 0  # how many groups were asked for
        self._abandoned = False

    # Asking.

    @property
    def begun(self) -> Calls:
        """See `QueueEntry`: those groups that a server may know it from."""
        call = self._call
        unseen = call is not None and call.withdrawn and not (self.tainted or self._number)
        return self._all.upto(max(1, self._asked - unseen))

    @property
    def known(self) -> bool:
        """See `QueueEntry`."""
        return bool(self._held) or super().known

    def ask(self) -> None:
        """Ask for the next group."""
        self._asked = max(self._asked, len(self._held) + 1)
        super().ask()

    def told(self, fence: int) -> None:
        """A message says that a name of the next group is reserved for it."""
        super().verify()

    def verify(self) -> None:
        """Ask at once, also about what it has: something may have changed."""
        for partial in self._held:
            partial.verify()
        super().verify()

    @property
    def _all(self) -> MultiCalls:
        return cast(MultiCalls, self.asker.calls)

    @property
    def _calls(self) -> MultiCalls:
        return self._all.groups[len(self._held)]

    @property
    def _complete(self) -> bool:
        """Whether it has all groups, and only raises their fences."""
        return self.state is ASKING and len(self._held) == len(self._all.groups)

    # From one slot to the next.

    def take(self, outcome: AcquireOutcome | Passed | BackendError, sent_at: float) -> None:
        """The outcome of a request that was written at `sent_at`."""
        if self.state is ASKING and isinstance(outcome, Granted):
            self._step(outcome, sent_at)
        elif self._held and isinstance(outcome, Refused):
            super().take(outcome._replace(spent=True), sent_at)
        else:
            super().take(outcome, sent_at)

    def _step(self, outcome: Granted, sent_at: float) -> None:
        """It has one more group: ask for the next one."""
        queue, calls = self.queue, self._calls
        runtime = queue.runtime
        runtime.fences.heard(outcome.fence)  # the next one's is greater
        queue.replies -= 1  # those that wait have no answer before all slots have answered
        # Only what is said of the whole begins with its end: its time is not over before, however long that takes.
        policy = replace(self.asker.policy, renew=True, max_hold=None)
        self._held += (Hold(self.owner, calls, policy, outcome, sent_at, self, runtime.clock.now()),)
        self._abandoned = self._abandoned or outcome.abandoned
        self._begin_group()
        if self._complete:
            self._join()
        else:
            self.ask()

    def _join(self) -> None:
        """Raise all fences to the greatest, at once."""
        for partial in self._held:
            partial.fence = self._held[-1].fence
        scheduler, clock = self.queue.runtime.scheduler, self.queue.runtime.clock
        scheduler.schedule(self, clock.now())

    def _enter(self, outcome: Renewed, sent_at: float) -> None:
        """All slots say that it has their names, with one fence."""
        fence = self._held[-1].fence
        self._let_go()
        self.queue.replies += 1
        self.queue.granted(self, Granted(fence, outcome.pttl, self._abandoned), sent_at)

    # As its holds see it, which no task has: see `Home`.

    contention: Contention = Contention(exclusive=True)
    unreachable: AiolockError | None = None

    @property
    def runtime(self) -> Services:
        """The manager's."""
        return self.queue.runtime

    def lost(self, hold: Hold) -> None:
        """It lost a group."""
        name, part = self._all.name, hold.calls.name
        values = {"lock_name": name, "part": part, "explanation": hold.explain()}
        self.runtime.observers.repeats.say(LOST_PART, values, hold.reason)
        self._begin_again(part)

    def extended(self, hold: Hold, deadline: float, pttl: int, sent_at: float) -> None:
        """It keeps a group: nobody is told."""

    def expel(self, hold: Hold) -> None:
        """The manager does not know of it: its waiter gives up, and this ends."""

    def _begin_again(self, part: str) -> None:
        self.queue.lost_part(self, Refused(0, self._held[-1].fence, "", spent=True, part=part))

    # As the scheduler sees it.

    def on_due(self, now: float, late: float) -> Renewable | None:
        return self if self._complete else super().on_due(now, late)

    def part(self) -> tuple[Batch, Part]:
        if not self._complete:
            return super().part()
        calls = self._all
        return calls.renew_many, calls.renewal(self.owner, self._held[-1].fence, self.asker.policy.ttl_ms)

    def judged(self, outcome: Any, sent_at: float) -> None:
        if not self._complete:
            super().judged(outcome, sent_at)
        elif isinstance(outcome, Renewed):
            self._enter(outcome, sent_at)
        elif isinstance(outcome, Missing):
            self._begin_again("")
        elif isinstance(outcome, Failed):
            self.unknown(BackendError(self._all.name, outcome.error, outcome.transient))

    def unknown(self, error: BackendError) -> None:
        if not self._complete:
            super().unknown(error)
        elif error.transient and self.asker.queues:
            self.queue.runtime.scheduler.schedule(self, self.queue.runtime.clock.now() + self.waits().unanswered())
        else:
            self.queue.failed(self, error)

    # Its end.

    def rename(self, owner: str) -> None:
        """See `QueueEntry`: with another id it begins with the first group."""
        super().rename(owner)
        self._let_go()
        self._begin_group()

    def end(self) -> None:
        """Give up: undo whatever the servers have granted or queued, or will."""
        super().end()
        self._let_go()

    def _let_go(self) -> None:
        """What it has is held by other means, or returned."""
        held, self._held = self._held, ()
        for partial in held:
            partial.end()
