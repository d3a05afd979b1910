"""A process: its loop, its clock, its connections, and when it stands still."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from aiolock.clock import SystemClock

from .loop import SimulatedLoop, Source
from .plan import Plan
from .world import World

if TYPE_CHECKING:
    from .network import Connection

NEVER = float("inf")
BUSY = 40
"""Turns without a pause after which the loop is given less time: code that spins must not stop the clock."""


class Process:
    """One process.

    Args:
        world: the time.
        plan: how the network and the clocks behave.
        number: which one it is.

    Attributes:
        stalls: from when until when it stood still.
        held_up: until when the network holds what it sends; `held_down` what is sent to it.
        turns: when the last two turns of its loop began: what had arrived before the first of them has been read.
        revocations: when which messages reached it that tell of an end by force.
        dead: it was killed.
    """

    def __init__(self, world: World, plan: Plan, number: int) -> None:
        self.world = world
        self.plan = plan
        self.number = number
        self.name = f"p{number}"
        self.dice = world.dice(self.name)
        self.rate = 1.0 + plan.drift * (number - 1)
        self.clock = SystemClock()
        self.clock.now = self.now
        self.connections: list[Connection] = []
        self.stalls: list[tuple[float, float]] = []
        self.held_up = self.held_down = 0.0
        self.turns: deque[float] = deque([0.0] * 2, maxlen=2)
        self.revocations: list[tuple[float, bytes]] = []
        self.dead = False
        self._offset = 10_000.0 * number
        self._stalled_until = 0.0
        self._wake_at = NEVER
        self._turns = 0  # without a pause
        self.loop = SimulatedLoop(self)

    # Its clock.

    def now(self) -> float:
        """Its monotonic clock."""
        return self._offset + self.world.now * self.rate

    def moment(self, local: float) -> float:
        """Return when its clock shows this, as the world counts."""
        return (local - self._offset) / self.rate

    def tie(self) -> float:
        return self.dice.random() * 1e-7

    # Its loop.

    def shuffled(self, ready: list[Source]) -> list[Source]:
        self.dice.shuffle(ready)
        return ready

    def broken(self, context: dict[str, Any]) -> None:
        self.world.fail(f"{self.name}: {context.get('message')}: {context.get('exception')!r}")

    def news(self, source: Source) -> None:
        """A connection has something."""
        if not self.dead:
            self.loop.news(source)
            self.poke()

    def poke(self) -> None:
        """It has something to do."""
        self._wake(self.world.now + self.dice.random() * 0.0001)

    def _wake(self, when: float) -> None:
        when = max(when, self._stalled_until)
        if when < self._wake_at and not self.dead:
            self._wake_at = when
            self.world.at(when, self._run, when)

    def _run(self, when: float) -> None:
        if when != self._wake_at or self.dead:
            return
        self._wake_at = NEVER
        world, loop = self.world, self.loop
        if world.now < self._stalled_until:
            self._wake(self._stalled_until)
            return
        with loop.running():
            if not loop.left:
                self.turns.append(world.now)
                loop.begin_turn()
            pauses = self.plan.split and self.dice.random() < self.plan.split
            while loop.left and world.violation is None and not self.dead:
                world.step("turn", self.number)
                if world.violation is not None or self.dead or world.now < self._stalled_until:
                    break
                loop.run_one()
                if pauses or world.now < self._stalled_until:
                    break
        self._rest()

    def _rest(self) -> None:
        """Sleep until there is something to do."""
        loop, dice, now = self.loop, self.dice, self.world.now
        if loop.left:
            self._wake(now + dice.random() * 0.001)
            return
        due = loop.due()
        if due == NEVER:
            self._turns = 0
        elif due <= self.now():
            self._turns += 1
            self._wake(now + (0.0002 if self._turns < BUSY else 0.01) * dice.random())
        else:
            self._turns = 0
            self._wake(self.moment(due) + dice.random() ** 4 * 0.002)

    def stall(self, seconds: float) -> None:
        """Stand still from now on."""
        until = self.world.now + seconds
        if until > self._stalled_until:
            self.world.note("stall", f"for {seconds:.3f} s", self.name)
            self.stalls.append((max(self.world.now, self._stalled_until), until))
            self._stalled_until = until

    def ran(self, since: float, until: float) -> float:
        """For how many of these seconds it did not stand still."""
        stalled = sum(max(0.0, min(until, end) - max(since, begin)) for begin, end in self.stalls)
        return until - since - stalled

    # Its end.

    def break_off(self, connection: Connection) -> None:
        """It abandons a connection: what is on its way may arrive, or not, or late."""
        late = self.plan.abandoned
        if late is None:
            late = 0.0 if self.dice.random() < 0.5 else self.dice.random() * min(self.plan.ttl, 2.0)
        connection.break_off(None, late)

    def die(self, *, unplugged: bool) -> None:
        """End without a last word; if the whole machine does, not even the kernel closes its connections."""
        self.world.note("die", "unplugged" if unplugged else "", self.name)
        self.dead = True
        for connection in self.connections:
            if unplugged:
                connection.up.items.clear()
            elif connection.open:
                connection.break_off(len(connection.up.items))

    def discard(self) -> None:
        """Nothing of it runs any more."""
        self.dead = True
        for connection in self.connections:
            connection.transport.forget()
        self.loop.discard()
