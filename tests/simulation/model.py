"""What must be true of every history: who may be inside at the same time, in which order, and who must be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiolock import Lease
from aiolock.owner import KEPT, STEP
from aiolock.primitives.kinds import FULL

from .truth import PERMITS
from .world import World

if TYPE_CHECKING:
    from .plan import Plan
    from .process import Process
    from .server import Server

SLACK = 0.06
"""Seconds in which a loop that runs delivers what it knows."""
ROUNDING_MS = 3
CAPACITY = {
    "lock": 1, "rw": FULL, "semaphore": PERMITS, "redisson": 1, "redisson rw": FULL, "redisson permits": PERMITS,
}  # fmt: skip


@dataclass(eq=False)
class Wish:
    """A wait for a name, which may become a stay.

    Attributes:
        who: the task's name.
        process: where it runs.
        kind: one of `CAPACITY`.
        names: all of them.
        weight: how much of each.
        fair: it waits in an order of tasks.
        priority: how far ahead.
        began: when it asked.
        floors: the highest fence of a holder of each name at that time.
        passed: how many others came in before it, by name.
    """

    who: str
    process: Process
    kind: str
    names: tuple[str, ...]
    weight: int
    fair: bool
    priority: int
    began: float
    floors: list[int]
    passed: int = 0

    @property
    def place(self) -> float:
        """The earlier it is, the sooner it comes in."""
        return self.began - STEP * self.priority

    @property
    def of_permits(self) -> bool:
        """Whether it can ask for some of them, and give back some."""
        return self.kind in ("semaphore", "redisson permits")

    @property
    def on_redisson(self) -> bool:
        """Whether it is on that wire, which has no fences."""
        return self.kind.startswith("redisson")


@dataclass(eq=False)
class Stay:
    """From the first line of a body to its last.

    Attributes:
        wish: what it was.
        lease: what it got.
        guarded: a loss ends it.
        until_expiry: its clean-up may last until the server's expiry.
        entered: when.
        lost_since: since when a loss is known; None for never.
        overtaken: who came in while it was inside; it must be told, at its end at the latest.
        kept_until: until when nobody may come in, however early it ends.
    """

    wish: Wish
    lease: Lease
    guarded: bool
    until_expiry: bool
    entered: float
    lost_since: float | None = None
    void: bool = field(default=False)
    overtaken: str = ""
    kept_until: float = 0.0

    def __str__(self) -> str:
        return f"{self.wish.who} in {self.wish.kind} {'+'.join(self.wish.names)} (fence {self.lease._hold.fence})"


class Model:
    """Checks a history as it grows.

    Args:
        world: the time.
        plan: what is going on.
        server: the truth.

    Attributes:
        breaches: when something happened that ends holds before their time: the server forgot, or its clock was set.
        revoked: when each hold was ended by force, by its owner and fence.
        waiting: all who wait.
        inside: all who are in.
        kept: those who are not, but of whom something stays taken.
        entries: how many came in.
    """

    def __init__(self, world: World, plan: Plan, server: Server) -> None:
        self.world = world
        self.plan = plan
        self.server = server
        self.breaches: list[float] = []
        self.revoked: dict[tuple[str, int], float] = {}
        self.waiting: list[Wish] = []
        self.inside: list[Stay] = []
        self.kept: list[Stay] = []
        self.entries = 0
        self.troubled_until = 0.0
        self._unordered_until = 0.0
        self._highest: dict[tuple[str, str], int] = {}
        self._free_since: dict[tuple[str, str], float] = {}

    # What happens.

    def asks(
        self,
        who: str,
        process: Process,
        kind: str,
        names: tuple[str, ...],
        weight: int,
        fair: bool,
        priority: int = 0,
    ) -> Wish:
        """A task begins to wait."""
        floors = [self._highest.get((kind, name), 0) for name in names]
        wish = Wish(who, process, kind, names, weight, fair, priority, self.world.now, floors)
        self.waiting.append(wish)
        return wish

    def gives_up(self, wish: Wish) -> None:
        """It waits no longer; harmless if it came in."""
        if wish in self.waiting:
            self.waiting.remove(wish)

    def enters(self, wish: Wish, lease: Lease, *, guarded: bool, until_expiry: bool = False) -> Stay:
        """A body begins."""
        self.gives_up(wish)
        stay = Stay(wish, lease, guarded, until_expiry, self.world.now)
        self.entries += 1
        if lease.lost:
            stay.void = True
            now = self.world.now
            if not self.broken(wish.began) and wish.process.ran(wish.began, now) > now - wish.began - 0.04:
                self.world.fail(f"{stay} began although it was lost: {lease.reason}")
        elif (self.broken(wish.began) or self.revoked_of(stay)) and not self._held(stay):
            stay.void = True  # it will be told, with its next renewal at the latest
            self._check_revoked(stay)
        else:
            self._check_order(stay)
            self._check_room(stay)
            self._check_slots(stay)
            if not wish.on_redisson:
                self._check_fence(stay)
            self._check_truth(stay)
        self.inside.append(stay)
        return stay

    def leaves(self, stay: Stay) -> None:
        """A body has ended."""
        if stay in self.inside:
            self.inside.remove(stay)
            if stay.kept_until:
                self.kept.append(stay)

    def died(self, process: Process) -> None:
        """A process was killed: nothing in it is inside any more."""
        for stay in [stay for stay in self.inside if stay.wish.process is process]:
            self.leaves(stay)
        self.waiting = [wish for wish in self.waiting if wish.process is not process]

    def breach(self) -> None:
        """From now on holds may end before their time."""
        self.breaches.append(self.world.now)

    def revokes(self, owner: str, fence: int) -> None:
        """A hold was ended by force."""
        self.revoked[owner, fence] = self.world.now

    def trouble(self, seconds: float = 0.0) -> None:
        """Something went wrong, and goes on for so long."""
        self.troubled_until = max(self.troubled_until, self.world.now + seconds)

    def troubled(self) -> bool:
        """Whether something went wrong of which a task may hear now: some time after its end it is no excuse."""
        plan = self.plan
        if plan.spikes or plan.slow:
            return True
        after = plan.longest + plan.liveness + 2 * plan.request_timeout + 3.0
        return self.world.now <= self.troubled_until + after

    def queue_lost(self) -> None:
        """The server has lost its queues: each waiter says within a beat that it still waits."""
        plan = self.plan
        beat = min(plan.liveness / 3, plan.recheck, *plan.ttls) * 1.5
        self._unordered_until = self.world.now + beat + 24 * plan.latency + 0.1

    # What must be true.

    def look(self) -> None:
        """Check what depends on time alone."""
        now = self.world.now
        for stay in self.inside:
            if not stay.lease.lost:
                if not stay.lease.released:
                    self._check_truth(stay)
            elif stay.lost_since is None:
                stay.lost_since = now
            elif stay.guarded and not stay.until_expiry:
                known = stay.wish.process.ran(stay.lost_since, now)
                if known > SLACK:
                    self.world.fail(f"{stay} was not told of its loss for {known:.3f} s: {stay.lease.reason}")
        self._check_waiters()

    def _check_room(self, new: Stay) -> None:
        kind, now = new.wish.kind, self.world.now
        for name in new.wish.names:
            used = new.wish.weight
            others = []
            for stay in self.inside:
                if stay.wish.kind != kind or name not in stay.wish.names:
                    continue
                if new.wish.weight + stay.wish.weight > CAPACITY[kind] and not self._voided(stay):
                    stay.overtaken = str(new)
                if not self._excused(stay, now):
                    used += stay.wish.weight
                    others.append(str(stay))
            for stay in self.kept:
                if stay.wish.kind == kind and name in stay.wish.names and self._keeps(stay, now):
                    used += stay.wish.weight
                    others.append(f"kept {stay}")
            if used > CAPACITY[kind]:
                self.world.fail(f"{new} began while inside: {', '.join(others)}")

    def _keeps(self, stay: Stay, now: float) -> bool:
        """Whether what it had is still taken, though it is not inside."""
        ended = stay.void or self.broken(stay.wish.began) or self.revoked_of(stay)
        return now < stay.kept_until - SLACK and not ended

    def _check_slots(self, new: Stay) -> None:
        """Nobody else has its permits."""
        slots = new.lease.slots
        if slots and (len(slots) != new.wish.weight or max(slots) >= PERMITS):
            self.world.fail(f"{new} has {new.wish.weight} permits, and the slots {slots}")
        for stay in self.inside:
            if set(slots) & set(stay.lease.slots) and not self._excused(stay, self.world.now):
                self.world.fail(f"{new} has the slots {slots}, and {stay} has {stay.lease.slots}")

    def _excused(self, stay: Stay, now: float) -> bool:
        """Whether another may be in now, although it is."""
        if self._voided(stay):
            return True
        hold, process = stay.lease._hold, stay.wish.process
        if not stay.guarded:
            return stay.lease.lost
        end = process.moment(hold.expiry if stay.until_expiry else hold.deadline)
        return now > end and process.ran(end, now) <= SLACK

    def _voided(self, stay: Stay) -> bool:
        """Whether it no longer holds, for a reason of which it knows or that excuses all."""
        return stay.void or stay.lease.released or self.broken(stay.wish.began) or self.revoked_of(stay)

    def revoked_of(self, stay: Stay) -> bool:
        """Whether force has ended what it holds, or what stayed taken of that."""
        hold = stay.lease._hold
        return not {(hold.owner, hold.fence), (hold.owner + KEPT, hold.fence)}.isdisjoint(self.revoked)

    def broken(self, since: float) -> bool:
        """Whether a hold that was asked for then may have ended before its time."""
        longest = self.plan.longest * 1.2 + self.plan.liveness + 1.0
        return any(since - 0.5 <= breach and self.world.now < breach + longest for breach in self.breaches)

    def _check_revoked(self, stay: Stay) -> None:
        """A message that has arrived lets no block begin."""
        hold, process = stay.lease._hold, stay.wish.process
        message = f"revoked {hold.owner} {hold.fence}".encode()
        read = any(at < process.turns[0] and message in data for at, data in process.revocations)
        if read and self.plan.calm:
            self.world.fail(f"{stay} began after its process had read that force has ended it")

    def _check_fence(self, stay: Stay) -> None:
        wish, fence = stay.wish, stay.lease.fence
        shared = wish.kind == "rw" and wish.weight == 1
        for name, floor in zip(wish.names, wish.floors, strict=True):
            key = (wish.kind, name)
            if (wish.kind == "lock" or wish.weight == FULL) and not self.broken(wish.began):
                floor = self._highest.get(key, 0)
            if fence < floor or (fence == floor and not shared):
                self.world.fail(f"{stay} after fence {floor}")
            self._highest[key] = max(fence, self._highest.get(key, 0))

    def _check_truth(self, stay: Stay) -> None:
        """The server keeps it at least as long as its holder believes."""
        believed = stay.lease.remaining() * 1000
        for name in stay.wish.names:
            left = self.server.truth.kept(stay.wish.kind, name, stay.lease._hold.owner)
            if left + ROUNDING_MS < believed and not self._voided(stay):
                self.world.fail(f"{stay} counts on {believed:.0f} ms, but the server keeps it for {left} ms")

    def _held(self, stay: Stay) -> bool:
        kept = self.server.truth.kept
        return all(kept(stay.wish.kind, name, stay.lease._hold.owner) for name in stay.wish.names)

    def _check_waiters(self) -> None:
        """No one sleeps long beside a free lock."""
        now, plan = self.world.now, self.plan
        for kind, name in {(wish.kind, name): None for wish in self.waiting for name in wish.names}:
            if kind in ("rw", "semaphore"):
                continue
            if self.server.truth.taken(kind, name):
                self._free_since.pop((kind, name), None)
                continue
            free = self._free_since.setdefault((kind, name), now)
            for wish in self.waiting:
                bound = max(plan.recheck, plan.liveness) + 2.0
                if wish.kind == kind and wish.names == (name,):
                    since = max(free, wish.began, self.troubled_until + 2 * plan.request_timeout + 3.0)
                    # One that died first in line of a fair lock of Redisson's counts as alive for longer.
                    bound += plan.longest if wish.fair and wish.on_redisson else 0.0
                    if now - since > bound and wish.process.ran(since, now) > bound:
                        self.world.fail(f"{wish.who} sleeps beside {name!r}, free for {now - since:.1f} s")

    def _check_order(self, stay: Stay) -> None:
        """How many came in before it, and whether one of them came later; only while nothing goes wrong."""
        new, plan = stay.wish, self.plan
        for name in new.names:
            self._free_since.pop((new.kind, name), None)
        if not plan.orderly or self.world.now < self._unordered_until or not (new.kind == "lock" or new.fair):
            return
        grace = 12 * plan.latency + 0.05
        bound = plan.processes * (plan.handoff_limit + 2) + len(plan.workers)
        for other in self.waiting:
            if other.kind != new.kind or not set(other.names) & set(new.names) or self.world.now < other.began + grace:
                continue
            other.passed += new.priority <= other.priority
            if other.passed > bound and len(other.names) == 1:
                self.world.fail(f"{other.who} waits for {other.names}, and {other.passed} came in before it")
            if new.fair and other.fair and new.names == other.names and new.place > other.place + grace:
                self.world.fail(
                    f"{new.who} came in before {other.who}, whose place is {new.place - other.place:.3f} s earlier"
                )
