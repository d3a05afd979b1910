"""The tasks of this process that wait for a name, and the requests to the server for them."""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from ...errors import AiolockError, BackendError, ConfigurationError, repeated
from ...events import Waiting
from ...scripts.outcomes import AcquireOutcome, Granted, Impossible, Refused
from ..calls import Calls
from ..holding.telling import tell_waiting
from ..runtime import Runtime
from ..scheduler import NEVER
from .queue_entry import QueueEntry
from .race import Race
from .wait import ENDED, IDLE, QUEUED, Turn, Wait
from .waiter import Expired, Waiter

T = TypeVar("T")

LONG_AGO = -math.inf
"""The clock time of what has not happened."""


class LocalQueue:
    """The waiters of one name in this process, and their entries in the server's queue.

    A process has one entry for all its tasks. The first of them when it is granted takes it, and a release hands the
    name on among them for a turn. The first one of all asks by itself; an entry adopts that request as soon as anything
    else than a grant comes of it, or another task comes. Where order is kept task by task, each waiter has an entry of
    its own. Where several servers decide, there is no queue: the process's entry asks again whenever the name may be
    free.

    The name's `Gate` is one, and makes its attributes; this much of it is known to waiters and entries.

    Attributes:
        waiters: those that share the process's entry.
        entries: those that are not granted, in order.
        common: the process's entry; None while it has none, or has the name.
        asking: the waiter that asks by itself; None if none does.
        race: how the process asks where no server keeps a queue; None where one does.
        replies: how often the server has answered.
        stated_at, seen_at: clock time of the last request that said that it waits; whose answer said so of its first.
        turn: the rest of this process's turn; None if no other waited in it when it began.
        taken: holds that are not lost, and transfers on their way.
    """

    __slots__ = (
        "_new_entry",
        "asking",
        "calls",
        "common",
        "entries",
        "race",
        "replies",
        "runtime",
        "seen_at",
        "stated_at",
        "taken",
        "turn",
        "waiters",
    )

    runtime: Runtime
    calls: Calls
    waiters: dict[Waiter, None]
    entries: dict[QueueEntry, None]
    common: QueueEntry | None
    asking: Waiter | None
    race: Race | None
    turn: Turn | None
    replies: int
    seen_at: float
    stated_at: float
    taken: int
    _new_entry: type[QueueEntry]

    @property
    def foremost(self) -> str:
        """The owner of this process's first entry in the server's queue; '' if it has none."""
        first = self.first_queued()
        return "" if first is None else first.owner

    def advance(self) -> None:
        """Ask for the waiters, if nothing else gets them in."""
        asked = self.taken or self.common is not None or self.asking is not None
        if self.waiters and not asked and not self.runtime.binding.closing:
            self.ask_for_all(next(iter(self.waiters)))

    def ask_for_all(self, waiter: Waiter) -> None:
        """Create the process's entry, and let it ask, as `waiter` wants the name."""
        entry = self.enter(waiter)
        if self.race is None:
            entry.ask()
        else:
            self.race.begin(entry)

    def refresh(self, waiter: Waiter) -> None:
        """Ask the server for the entry that gets the waiter in: a message may have been missed."""
        entry = self.entry_of(waiter)
        if entry is not None and entry.state is QUEUED:
            entry.verify()
        elif entry is not None and entry.state is IDLE:
            entry.ask_at(self.runtime.clock.now())

    def adopt(self, waiter: Waiter) -> QueueEntry:
        """Create the entry of the process: it continues what a waiter has asked for by itself."""
        call = waiter.call
        assert call is not None
        entry = QueueEntry(self, waiter.owner, waiter, None)
        entry.adopt(call)
        self.runtime.queue_entries[waiter.owner] = entry
        self.asking = waiter.call = None
        waiter.adopted = self.common = entry
        self.entries[entry] = None
        return entry

    def entry_of(self, waiter: Waiter) -> QueueEntry | None:
        """The entry whose last answer says why the waiter still waits; None if there is no entry."""
        return waiter.entry or self.common

    def waits(self) -> list[Waiter]:
        """All that wait."""
        return [*self.waiters, *(entry.waiter for entry in self.entries if entry.waiter is not None)]

    def ask(self, entry: QueueEntry) -> None:
        """It is time for the entry to ask."""
        if self.race is None:
            entry.ask()
        else:
            self.race.ask(entry)

    def enter(self, waiter: Waiter, alone: bool = False) -> QueueEntry:
        """Create an entry for `waiter` alone, or for all tasks of this process, of which it is the first."""
        runtime = self.runtime
        if self.asking is not None:
            self.adopt(self.asking)  # entries are in the order in which they came
        owner = self._new_owner(waiter)
        entry = self._new_entry(self, owner, waiter, waiter if alone else None)
        if alone:
            waiter.entry = entry
        else:
            self.common = entry
        runtime.queue_entries[owner] = entry
        self.entries[entry] = None
        if waiter.policy.priority:
            pass_others(self.entries, entry, lambda one: one.asker.place)
        return entry

    def _new_owner(self, waiter: Waiter) -> str:
        policy = waiter.policy
        return self.runtime.binding.new_owner(waiter.calls.mark, policy.ttl_ms, waiter.liveness_ms, policy.priority)

    def begin_wait(self, entry: QueueEntry) -> Wait:
        """The first answer about the entry lets no task in. Observers hear of that once it has been dealt with."""
        if self.runtime.observers.wants(Waiting):
            loop = asyncio.get_running_loop()
            loop.call_soon(self._tell_waiting, entry.waiter, context=self.runtime.context)
        self.entangles(entry.asker)
        return Wait()

    def _tell_waiting(self, own: Waiter | None) -> None:
        for waiter in list(self.waiters) if own is None else (own,):
            if waiter.queues and not (waiter.wait or waiter.outcome.done()):
                waiter.wait = tell_waiting(self.runtime, waiter.calls)

    def first_queued(self) -> QueueEntry | None:
        return next((entry for entry in self.entries if entry.state is QUEUED), None)

    # What becomes of entries.

    def granted(self, entry: QueueEntry, grant: Granted, sent_at: float) -> None:
        """The entry has the name, by the answer to what was written at `sent_at`: it is its waiter's from now on, or
        that of the first of the process; if there is none, it is undone.
        """
        taker = self.taker(entry)
        if taker is None:
            entry.end()
            return
        if taker.policy is not entry.asker.policy:  # the server has the other's terms: ask with its own
            self.runtime.keeps(grant.pttl)
            entry.asker = taker
            entry.ask()
            return
        entry.state, entry.asker = ENDED, taker
        self.left(entry)
        if entry.waiter is None:
            if len(self.waiters) == 1:
                self.waiters.clear()  # frees the table; deleting entries does not, and the lock may be held for long
            else:
                del self.waiters[taker]
            taker.entry = entry
            if not entry.continues:
                waiting, limits = len(self.waiters), self.runtime.limits
                self.turn = Turn(self.runtime.clock.now(), waiting, limits.handoff_limit) if waiting else None
        self.begin(taker, entry, grant, sent_at)

    @abstractmethod
    def entangles(self, waiter: Waiter) -> None:
        """A waiter was not granted the name at once: its task may hold something else meanwhile."""

    @abstractmethod
    def begin(self, waiter: Waiter, asked: Waiter | QueueEntry, grant: Granted, sent_at: float) -> None:
        """What has asked was granted the name, for `waiter`, by the answer to what was written at `sent_at`."""

    def taker(self, entry: QueueEntry) -> Waiter | None:
        """Whose turn it would be if the entry were granted now; None if no one waits for it any more."""
        if entry.waiter is not None:
            return entry.waiter
        for waiter in self.waiters:
            if not waiter.outcome.done():
                return waiter
        return None

    def refused(self, entry: QueueEntry, refusal: AcquireOutcome) -> None:
        """Another owner has it, and no server keeps a place for the entry."""
        if isinstance(refusal, Refused):
            entry.waits().refused(refusal)
            self.runtime.fences.heard(refusal.fence)
        if self.race is not None and entry.asker.queues and isinstance(refusal, Refused):
            self.race.refused(entry, refusal)
        else:
            self._turn_away(entry, refusal)

    def failed(self, entry: QueueEntry, error: BackendError) -> None:
        """The server gave no verdict: those that wait for a first answer get that error. Or it refuses: all of them."""
        if self.runtime.binding.closing:
            return
        waiting = [entry.waiter] if entry.waiter is not None else list(self.waiters)
        told = [waiter for waiter in waiting if waiter.impatient] if error.transient else self.waits()
        for waiter in told:
            waiter.fail(repeated(error))
            self.waiters.pop(waiter, None)
        if error.transient and self.race is None and len(self.calls.names) <= 1:
            entry.taint()  # it continues with what it has asked for, however late that is done: nothing to undo
        else:
            self.renew_owner(entry, asks=False)  # other servers may have granted their part
            if self.race is not None:
                self.race.end_turn()  # others may get an answer
        entry.waits().failure = error
        if len(told) < len(waiting):
            entry.pause()
        elif entry is self.common:
            entry.end()

    def away(self, known: AiolockError) -> None:
        """The server cannot be reached: those that still wait for a first answer need not wait for it."""
        for waiter in [waiter for waiter in self.waits() if waiter.impatient]:
            waiter.fail(Expired(known))

    def renew_owner(self, entry: QueueEntry, asks: bool = True) -> None:
        """Its id can get nothing any more: undo what it may have, and continue with another."""
        self.stated_at = LONG_AGO  # the server may have forgotten that, too
        runtime = self.runtime
        entry.undo()
        runtime.queue_entries.pop(entry.owner, None)
        runtime.scheduler.forget(entry)
        entry.rename(self._new_owner(entry.asker))
        runtime.queue_entries[entry.owner] = entry
        if asks:
            self.ask_anew(entry)

    def ask_anew(self, entry: QueueEntry) -> None:
        """The entry has no place any more. If one refresh is enough for all, the others may have lost theirs, too."""
        for one in list(self.entries) if self.calls.one_refresh else [entry]:
            if one is entry or one.state is QUEUED:
                self.ask(one)

    def lost_part(self, entry: QueueEntry, refusal: Refused) -> None:
        """The entry has lost some of what it had: it returns the rest, and the process asks again."""
        if entry.waiter is not None:
            self.refused(entry, refusal)
        else:
            entry.end()
            self.advance()

    def left(self, entry: QueueEntry) -> None:
        """The entry no longer waits; if it spoke for the others of this process, the next one does."""
        runtime, entries = self.runtime, self.entries
        if entry.due != NEVER:
            runtime.scheduler.forget(entry)
        if entry is self.common:
            self.common = None
        if len(entries) == 1:
            entries.clear()  # frees the table, too
            return
        del entries[entry]
        if self.calls.one_refresh:
            first = self.first_queued()
            if first is not None and first.due == NEVER:
                first.schedule()

    def _turn_away(self, entry: QueueEntry, refusal: AcquireOutcome) -> None:
        waiter = entry.waiter
        if not (isinstance(refusal, Refused) and refusal.spent):
            entry.state = IDLE  # no server has anything of it
        entry.end()
        for one in [waiter] if waiter is not None else list(self.waiters):
            if isinstance(refusal, Impossible):
                one.fail(_impossible(self.calls.name, one.calls.weight, refusal.capacity))
            elif not one.outcome.done():
                one.outcome.set_result(refusal)

    def schedule_refresh(self, entry: QueueEntry, due: float) -> None:
        """The entry wants to be refreshed by then; if one refresh is enough for all, the first of them is."""
        if not self.calls.one_refresh or entry is self.first_queued():
            self.runtime.scheduler.schedule(entry, due)


def pass_others(line: dict[T, None], last: T, place: Callable[[T], float]) -> None:
    """Move the last one of a line before all that have a later place."""
    for one in [one for one in line if place(one) > place(last)]:
        del line[one]
        line[one] = None


def _impossible(name: str, weight: int, capacity: int) -> ConfigurationError:
    return ConfigurationError(name, f"{name!r} was asked for {weight} at once, but has {capacity} in all: ask for less")
