"""One round: a place, workers, faults one after the other, and what the journal proves."""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .crew import Crew
from .history import History
from .journal import Journal
from .lookout import Lookout
from .network import Network
from .places import PLACES, NotWhole, Place
from .plan import Fault, Plan
from .resource import Resource
from .uses import PATIENCE, TRAVEL
from .verdict import judge

STARVED = 60.0
"""Seconds: nobody waits for so long once all is well."""
LONG = 0.5
"""Seconds: a fault that lasts longer finds some inside, who stay as long as it."""
HEAD_START = 0.1
LEFT = 20.0
"""Seconds in which what killed processes held and queued for is gone."""
QUEUE = 65.0
"""Seconds that a queue lasts in which nobody stirs."""
END = PATIENCE + 20.0


@dataclass
class Outcome:
    """What a round showed.

    Attributes:
        plan: what was done.
        counts: what there was: operations, grants, writes, refused, faults, lost.
        recoveries: of each time when all was well again and each use: seconds until every process had got in.
        violations: what must not have happened.
        unfinished: why it ended early, through no fault of the library; "" if it did not.
        server: what ran.
        seconds: how long it took.
    """

    plan: Plan
    counts: dict[str, Any] = field(default_factory=dict)
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    unfinished: str = ""
    server: str = ""
    seconds: float = 0.0


async def run(plan: Plan, folder: Path) -> Outcome:
    """Run a plan in an empty folder; what fails in it is among the violations."""
    outcome = Outcome(plan)
    began = time.monotonic()
    with PLACES[plan.place].start() as place:
        outcome.server = place.version()
        await _Round(plan, folder, place, outcome).run()
    outcome.seconds = time.monotonic() - began
    return outcome


class _Round:
    def __init__(self, plan: Plan, folder: Path, place: Place, outcome: Outcome) -> None:
        self._plan = plan
        self._place = place
        self._outcome = outcome
        self._journal = Journal(folder / "journal")
        self._lookout = Lookout(folder / "journal")
        self._resource = Resource(str(folder / "resource"))
        self._resource.create()
        if user := place.given.get("second_user"):
            for path in (folder, *folder.iterdir()):
                os.chown(path, user, user)
        self._network = Network(place.ports, place.framing, place.host)
        self._crew = Crew(plan, place.given, folder, self._network, self._journal, self._lookout, self._resource)
        self._groups: dict[str, Network | Crew | Place] = {
            "network": self._network, "crew": self._crew, "place": place,
        }  # fmt: skip
        self._faults = 0

    async def run(self) -> None:
        plan = self._plan
        options = {"liveness": 3.0, **plan.options}
        self._journal.note(
            "plan", seed=plan.seed, place=plan.place, processes=plan.workers, patience=STARVED, **options
        )
        watching = asyncio.create_task(self._journal.watch())
        try:
            await self._crew.start()
            await self._everybody()
            for step in plan.faults:
                await self._step(step)
            await self._crew.end(END)
            self._outcome.violations += [f"worker: {text}" for text in self._crew.failed]
            await self._nothing_left()
        except NotWhole:
            self._outcome.unfinished = traceback.format_exc()
        except Exception:
            self._outcome.violations.append(f"round: {traceback.format_exc()}")
        finally:
            self._crew.close()
            watching.cancel()
            await self._network.aclose()
            for name, total in (self._resource.totals() | self._place.totals()).items():
                self._journal.note("total", name=name, count=total)
            self._resource.close()
        self._judge()

    async def _step(self, step: tuple[Fault, ...]) -> None:
        """Break something, mend it, and wait until everybody got in."""
        await asyncio.sleep(max(fault.pause for fault in step))
        seconds = max(fault.seconds for fault in step)
        if seconds > LONG:
            self._crew.linger(HEAD_START + seconds)
            await asyncio.sleep(HEAD_START)
        async with AsyncExitStack() as stack:
            # What was broken last is mended first: a worker that takes another's place finds servers and a network.
            for fault in sorted(step, key=lambda fault: fault.group):
                await self._strike(stack, fault)
            await asyncio.sleep(seconds)
        self._journal.note("healed")
        await self._everybody()

    async def _strike(self, stack: AsyncExitStack, fault: Fault) -> None:
        self._faults += 1
        number = self._faults
        self._journal.note(
            "fault", number=number, what=fault.what, on=f"{fault.group} {fault.number}", **self._excuse(fault)
        )
        stack.callback(lambda: self._journal.note("mended", number=number))
        where = self._groups[fault.group]
        await stack.enter_async_context(where.strike(fault.what, fault.number, fault.seconds))

    def _excuse(self, fault: Fault) -> dict[str, Any]:
        """For how many seconds after it two may be inside, and whether servers may forget."""
        if fault.group != "place":
            return {"excuses": 0.0, "loses": False}
        kind = self._place.kinds[fault.what]
        excuses = 0.0
        if kind.empties:
            excuses = float(self._plan.options["ttl"]) / 3 + float(self._plan.options["request_timeout"]) + 0.5
        elif kind.replaces and not self._plan.replicated:
            excuses = 1.0
        return {"excuses": excuses, "loses": kind.empties or kind.replaces}

    async def _everybody(self) -> None:
        """Wait until each process got in wherever it wants to."""
        since = time.monotonic()
        uses = self._plan.uses
        while missing := self._lookout.missing(self._crew.pids, uses, since):
            if dead := self._crew.dead():
                raise AssertionError(f"processes {dead} ended by themselves:\n{self._crew.errors()[-4000:]}")
            if time.monotonic() - since > STARVED:
                self._outcome.violations.append(f"starved: not in after {STARVED:.0f} s: {sorted(missing)}")
                break
            await asyncio.sleep(0.02)
        for use in {*uses} - {use for _, use in missing}:
            got_in = self._lookout.first(self._crew.pids, use, since) - since
            self._outcome.recoveries.setdefault(use, []).append(round(got_in, 3))

    async def _nothing_left(self) -> None:
        # A waiter that was killed just before the end is in its queue for as long as that lasts: nobody came to see it.
        killed = any(fault.what == "kill" for fault in self._plan.faults[-1])
        until = time.monotonic() + (QUEUE if killed else LEFT) + TRAVEL
        while (left := self._left()) and time.monotonic() < until:  # noqa: ASYNC110 - servers announce nothing
            await asyncio.sleep(0.2)
        self._outcome.violations += left

    def _left(self) -> list[str]:
        found = [f"left: {name} is held or waited for" for name in self._place.held()]
        found += [f"left: {key} has no expiry" for key in self._place.unlimited()]
        if clients := self._place.clients():
            found.append(f"left: {clients} connections")
        return found

    def _judge(self) -> None:
        self._outcome.violations += self._place.broken()
        self._lookout.look()
        history = History(self._lookout.history())
        self._outcome.counts = history.counts()
        self._outcome.violations += [f"worker: {text}" for text in self._lookout.failures]
        self._outcome.violations += [str(violation) for violation in judge(history)]
        if errors := self._crew.errors():
            self._outcome.violations.append(f"worker: it said:\n{errors[-4000:]}")
