"""The library, broken on purpose: the simulation must find each of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aiolock.core.gate import Gate
from aiolock.core.guarding.guard import Guard
from aiolock.core.holding.hold import Hold
from aiolock.core.holding.release import Release
from aiolock.core.queue_entries import QueueEntries
from aiolock.core.waiting.local_queue import LocalQueue
from aiolock.core.waiting.queue_entry import QueueEntry
from aiolock.core.waiting.wait import QUEUED
from aiolock.core.waiting.waiter import Waiter
from aiolock.recipes import reservation
from aiolock.recipes.joining import Joining
from aiolock.scripts import lock, queue, redisson
from aiolock.scripts.multi.spread import SpreadCalls
from aiolock.scripts.outcomes import Granted, Missing
from aiolock.scripts.redisson import permits, rw
from tests.support.lua import edit

Mutation = Callable[[pytest.MonkeyPatch], None]


def negative_margin(patch: pytest.MonkeyPatch) -> None:
    """A lease counts as held for a while after the server has let it expire."""
    extend = Hold.extend

    def late(self: Hold, sent_at: float, pttl: int) -> None:
        self.policy = replace(self.policy, margin=-0.5)
        extend(self, sent_at, pttl)

    patch.setattr(Hold, "extend", late)


def release_without_owner(patch: pytest.MonkeyPatch) -> None:
    """A release ends the hold of whoever has it."""

    found = "ARGV[1] = redis.call('HGET', KEYS[1], 'owner') or ARGV[1]"
    edit(patch, [lock.RELEASE], "local owner, head", f"{found} local owner, head")


def loss_without_cancel(patch: pytest.MonkeyPatch) -> None:
    """A lost lease is marked, and its body runs on."""
    patch.setattr(Guard, "cancel", lambda self, reason: None)


def undo_dropped(patch: pytest.MonkeyPatch) -> None:
    """What was granted to a task that gave up stays held."""
    write = Release.write

    def quiet(self: Release, left: int = 0) -> None:
        if self._ending != "undone":
            write(self, left)

    patch.setattr(Release, "write", quiet)


def tombstone_dropped(patch: pytest.MonkeyPatch) -> None:
    """A request that arrives late may bring an ended owner back."""

    edit(patch, [lock.RELEASE], "if left == 0 and (ARGV[6] or '0') ~= '0' then", "if false then")


def deadline_from_arrival(patch: pytest.MonkeyPatch) -> None:
    """A lease's time counts from the answer, not from the request."""
    extend = Hold.extend

    def late(self: Hold, sent_at: float, pttl: int) -> None:
        extend(self, self._clock.now(), pttl)

    patch.setattr(Hold, "extend", late)


def renewal_creates(patch: pytest.MonkeyPatch) -> None:
    """A renewal of what is gone takes the name again."""
    judge = "if name.owner ~= owner or name.fence ~= fence then"
    edit(patch, [lock.RENEW], judge, f"if name.owner ~= owner then name.owner, name.fence = owner, fence end {judge}")


def fence_repeated(patch: pytest.MonkeyPatch) -> None:
    """A grant gets the fence of the one before."""
    edit(patch, [lock.ACQUIRE], "local least = math.max(last, floor) + 1", "local least = math.max(last, floor, 1)")
    edit(patch, [lock.ACQUIRE], "local is_now =", "local is_now = false and")


def stale_grant_taken(patch: pytest.MonkeyPatch) -> None:
    """A grant that comes past its deadline is taken."""
    check = Hold.check
    patch.setattr(Hold, "check", lambda self: check(self) if self.entered else None)


def next_forgotten(patch: pytest.MonkeyPatch) -> None:
    """When a holder leaves, nobody asks for those that wait in its process."""
    patch.setattr(LocalQueue, "advance", lambda self: None)


def cancelled_waiter_stays(patch: pytest.MonkeyPatch) -> None:
    """A task that gives up keeps its place."""
    patch.setattr(Gate, "leave", lambda self, waiter: None)


def unasked(patch: pytest.MonkeyPatch) -> None:
    """As it was: a task goes in with the message of a grant, before the server has answered that it is for the ttl."""

    def told(self: QueueEntry, fence: int) -> None:
        if self.state is QUEUED:
            policy, clock = self.asker.policy, self.queue.runtime.clock
            self.queue.granted(self, Granted(fence, policy.ttl_ms, False), clock.now())

    patch.setattr(QueueEntry, "told", told)


def no_second_release(patch: pytest.MonkeyPatch) -> None:
    """A release whose answer was lost is not repeated."""
    patch.setattr(Release, "_unanswered", lambda self: False)
    patch.setattr(Release, "_in_time", lambda self, now: False)


def places_forgotten(patch: pytest.MonkeyPatch) -> None:
    """As it was: after a lost queue only the first waiter of a process asks for its place."""
    patch.setattr(LocalQueue, "ask_anew", LocalQueue.ask)


def numbers_forgotten(patch: pytest.MonkeyPatch) -> None:
    """As it was: after a lost queue each waiter asks for a place at the end."""
    patch.setattr(QueueEntry, "queue_number", property(lambda self: 0))


def closed_managers_stay(patch: pytest.MonkeyPatch) -> None:
    """As it was: servers remember a manager after it has closed."""
    patch.setattr(QueueEntries, "departures", lambda self, manager: [])


def grant_dropped(patch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled after its grant, before it runs, leaves it as it is."""
    leave = Gate.leave

    def without(self: Gate, waiter: Waiter) -> None:
        waiter.hold = None
        leave(self, waiter)

    patch.setattr(Gate, "leave", without)


def resent_ignored(patch: pytest.MonkeyPatch) -> None:
    """A repeated release that finds nothing counts as a loss."""
    judge = Release._judge

    def strict(self: Release, hold: Hold, missing: Missing) -> None:
        self.resent = False
        judge(self, hold, missing)

    patch.setattr(Release, "_judge", strict)


def late_copy_holds(patch: pytest.MonkeyPatch) -> None:
    """On Redisson's wire, a request that arrives late brings an ended owner back."""
    edit(patch, [redisson.ACQUIRE], "if redis.call('EXISTS', KEYS[2]) == 1 then", "if false then")


def queue_ignored(patch: pytest.MonkeyPatch) -> None:
    """On Redisson's wire, a fair lock that is free is for whoever asks."""
    edit(patch, [redisson.FAIR_ACQUIRE], "(rank == 1 or not places[1])", "true")


def reader_beside_writer(patch: pytest.MonkeyPatch) -> None:
    """On Redisson's wire, a reader comes in while another writes."""
    edit(patch, [rw.READ_ACQUIRE], "~= 'read' then", "== '' then")


def permit_too_many(patch: pytest.MonkeyPatch) -> None:
    """On Redisson's wire, one more than there are is granted."""
    edit(patch, [permits.ACQUIRE], "if free < count then", "if free + 1 < count then")


def kept_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A name that should stay taken is free with its release."""
    patch.setattr(Hold, "enter", lambda self, policy, granted: setattr(self, "entered", True))


def kept_cut_twice(patch: pytest.MonkeyPatch) -> None:
    """A release that is repeated takes as much again of the time for which the name stays taken."""
    edit(
        patch,
        [lock.RELEASE],
        "if name.owner == kept and",
        "if name.owner == kept then name.owner = owner end if false and",
    )


def priority_ignored(patch: pytest.MonkeyPatch) -> None:
    """Who waits with a priority goes last."""
    edit(patch, [lock.ACQUIRE, lock.TRANSFER], "came - 60000000 *", "came - 0 *")


def slots_shared(patch: pytest.MonkeyPatch) -> None:
    """Two holders of a semaphore have the same permit."""
    edit(patch, [queue.ACQUIRE, queue.REFRESH], "not taken[slot] and slot or nil", "slot")


def slots_stay(patch: pytest.MonkeyPatch) -> None:
    """Permits that are given back one by one keep their numbers."""
    edit(patch, [queue.RELEASE], "fewer(process, still)", "process")


def outcome_of_any_call(patch: pytest.MonkeyPatch) -> None:
    """A call gets the result of one that was over before it began."""
    follow = Joining.follow

    async def any_run(self: Joining, until: float | None) -> Any:
        seen = await self._ask(1)  # the fence of the first call of all
        return await follow(self, until) if seen.text is None else self._told(seen.text)

    patch.setattr(Joining, "follow", any_run)


def reservation_ends_with_its_attempt(patch: pytest.MonkeyPatch) -> None:
    """A job that is tried again has lost its reservation."""
    patch.setattr(reservation, "stays", lambda error, retry: False)


def pieces_stay(patch: pytest.MonkeyPatch) -> None:
    """A multi lock gives its first piece back, and no other."""
    release = SpreadCalls.release

    def first(self: SpreadCalls, *args: Any) -> Any:
        return release(self.upto(1), *args)

    patch.setattr(SpreadCalls, "release", first)


def pieces_in_any_order(patch: pytest.MonkeyPatch) -> None:
    """Multi locks take their pieces in orders of their own, and wait for each other."""
    groups = SpreadCalls.groups.fget
    assert groups is not None
    patch.setattr(SpreadCalls, "groups", property(lambda self: groups(self)[:: 1 if len(self.names) % 2 else -1]))


MUTATIONS: dict[Mutation, int] = {
    negative_margin: 0,
    release_without_owner: 5,
    loss_without_cancel: 10,
    undo_dropped: 0,
    tombstone_dropped: 920,
    deadline_from_arrival: 0,
    renewal_creates: 905,
    fence_repeated: 0,
    stale_grant_taken: 40,
    next_forgotten: 45,
    cancelled_waiter_stays: 30,
    unasked: 0,
    no_second_release: 0,
    places_forgotten: 60,
    numbers_forgotten: 60,
    closed_managers_stay: 25,
    grant_dropped: 6050,
    resent_ignored: 5010,
    kept_forgotten: 0,
    kept_cut_twice: 440,
    priority_ignored: 0,
    slots_shared: 0,
    slots_stay: 330,
    outcome_of_any_call: 700,
    reservation_ends_with_its_attempt: 0,
    pieces_stay: 0,
    pieces_in_any_order: 0,
}
"""Each with a seed from which it is soon found."""
ON_REDISSON: dict[Mutation, int] = {late_copy_holds: 60, queue_ignored: 25, reader_beside_writer: 0, permit_too_many: 0}
"""The same, of plans on that wire."""
