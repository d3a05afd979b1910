"""A run of a plan: processes, their managers and workers, the server, the faults, and the end of it all."""

from __future__ import annotations

import asyncio

from aiolock import BackendError, LockManager
from aiolock.backends.base import Backend
from aiolock.backends.coordinator import CoordinatorBackend
from aiolock.backends.redis import RedisBackend
from aiolock.backends.transactional.backend import TransactionalBackend

from .actor import COUNT, Actor
from .fault import Faults
from .jobs import Jobs
from .model import Model
from .network import Connector
from .orphans import Orphans
from .plan import Plan
from .process import Process
from .queues import QueueServer, SimulatedQueues
from .rows import RowServer, SimulatedDatabase
from .server import Server
from .world import Violation, World

SERVERS: dict[str, type[Server]] = {"redis": Server, "queues": QueueServer, "rows": RowServer}
"""By what keeps the locks."""
LOOK = 0.25
"""Seconds between two looks at what depends on time alone."""


class Scene:
    """Everything of one run.

    Args:
        plan: what happens.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan.noise)
        self.faults = Faults(self)
        self.server = SERVERS[plan.store](self.world, plan.kill, self.faults.around)
        self.model = Model(self.world, plan, self.server)
        self.jobs = Jobs(self.model)
        self.server.forced = self.model.revokes
        self.orphans = Orphans(self.world, self.server.truth, plan)
        self.processes = [Process(self.world, plan, number) for number in range(plan.processes)]
        self.managers: list[LockManager] = []
        self.actors: list[Actor] = []
        self._tickets: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}
        self._changed: set[str] = set()
        self._ran: dict[str, str] = {}
        self._ended: set[int] = set()
        self._mains: list[asyncio.Task[None]] = []

    def run(self) -> None:
        """Run it to its end.

        Raises:
            Violation: something must not have happened.
        """
        world, plan = self.world, self.plan
        try:
            for process in self.processes:
                with process.loop.running():
                    self._create(process)
                    self._mains.append(process.loop.create_task(self._main(process)))
                process.poke()
            for number, worker in enumerate(plan.workers):
                self.actors.append(Actor(self, self.processes[worker.process], worker, number))
            self.faults.begin()
            world.after(LOOK, self._look)
            world.run(world.now + self._budget(), self._over)
            if not self._over():
                self._stuck()
            self._check_end()
        finally:
            for process in self.processes:
                process.discard()
        if world.violation is not None:
            raise world.violation

    def _create(self, process: Process) -> None:
        plan = self.plan
        connector = Connector(process, self.server)
        backend: Backend
        if isinstance(self.server, QueueServer):
            store = SimulatedQueues(connector, self.server, process, plan.ttl / 6)
            backend = CoordinatorBackend(store, "aiolock", plan.request_timeout)
        elif isinstance(self.server, RowServer):
            engine = SimulatedDatabase(connector, self.server, process, plan.ttl / 6)
            backend = TransactionalBackend(engine, process.clock, plan.request_timeout)
        else:
            backend = RedisBackend(connector, clock=process.clock, request_timeout=plan.request_timeout)
        self.managers.append(
            LockManager(
                backend,
                ttl=plan.ttl,
                margin=plan.margin,
                request_timeout=plan.request_timeout,
                recheck=plan.recheck,
                handoff_limit=plan.handoff_limit,
                liveness=plan.liveness,
            )
        )

    async def _main(self, process: Process) -> None:
        """What the process does."""
        manager = self.managers[process.number]
        while True:
            try:
                await manager.open()
                break
            except BackendError:
                await asyncio.sleep(self.plan.reopens)
        actors = [actor for actor in self.actors if actor.process is process]
        tasks = [asyncio.create_task(actor.run()) for actor in actors]
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            task.result()
        if self.plan.stays:
            await asyncio.sleep(self.plan.stays)
        self.orphans.closes(manager)
        await manager.close()
        self.world.note("closed", who=process.name)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            self.world.fail(f"{process.name} leaves tasks behind: {sorted(map(repr, left))}")
        self._ended.add(process.number)

    def died(self, process: Process) -> None:
        """A process was killed."""
        self.model.died(process)
        self._ended.add(process.number)

    def _over(self) -> bool:
        return len(self._ended) == len(self.processes)

    def _look(self) -> None:
        self.model.look()
        self.orphans.look(self.processes, self.managers)
        self.world.after(LOOK, self._look)

    # What workers share.

    def put_ticket(self, name: str, ticket: str) -> None:
        """A lease goes to whoever takes it."""
        self._tickets.setdefault(name, []).append(ticket)

    def take_ticket(self, name: str) -> str | None:
        """Take the last one."""
        tickets = self._tickets.get(name)
        return tickets.pop() if tickets else None

    def opened(self, name: str, who: str) -> None:
        """A latch was seen open."""
        counts = sum(step.what == "count" and step.name == name for w in self.plan.workers for step in w.steps)
        if counts < COUNT:
            self.world.fail(f"{who} saw latch {name!r} open after {counts} counts at most")

    def change(self, name: str) -> None:
        """What some wait for has become true."""
        self._changed.add(name)

    def changed(self, name: str) -> bool:
        """Whether it has."""
        return name in self._changed

    def runs_once(self, name: str, who: str) -> None:
        """A job begins that runs once."""
        if self.plan.calm and name in self._ran:
            self.world.fail(f"{who} runs {name!r}, which {self._ran[name]} has run")
        self._ran[name] = who

    # Its end.

    def _budget(self) -> float:
        """Seconds after which everybody must be done."""
        plan = self.plan
        work = sum(step.seconds + (step.timeout or 0.0) for worker in plan.workers for step in worker.steps)
        starts = max((worker.starts for worker in plan.workers), default=0.0)
        steps = sum(len(worker.steps) for worker in plan.workers)
        waits = steps * (0.5 + 60 * plan.latency)
        outages = sum(fault.seconds + plan.longest + plan.liveness + 6.0 for fault in plan.faults)
        slow = ("close", "detach", "block")
        closes = sum(step.what in slow or step.how == "kept" for worker in plan.workers for step in worker.steps)
        faults = max((fault.at for fault in plan.faults if isinstance(fault.at, float)), default=0.0)
        ends = (2 + closes) * (plan.longest + plan.liveness + 3.0) + plan.stays + 20.0
        return starts + faults + work + waits + outages + ends

    def _stuck(self) -> None:
        self._check_mains()
        waiting = [f"{actor.name} of {actor.process.name} in {actor.step}" for actor in self.actors if not actor.done]
        raise Violation(f"not done after {self._budget():.0f} s: {waiting or self._ended}")

    def _check_mains(self) -> None:
        for main in self._mains:
            if main.done() and not main.cancelled() and main.exception() is not None:
                raise Violation(f"a process ended by {main.exception()!r}") from main.exception()

    def _check_end(self) -> None:
        self._check_mains()
        world, truth, plan = self.world, self.server.truth, self.plan
        if wrong := truth.wrong(plan.calm):
            world.fail(wrong)
        if plan.calm and not self._unclear() and (left := truth.left()):
            world.fail(f"still held or awaited: {left}")
        if plan.orderly and not self._unclear() and (alive := truth.known()):
            world.fail(f"managers that have closed are still known: {alive}")
        late = [connection.late_until for process in self.processes for connection in process.connections]
        settled = max(world.now, self.server.busy_until, *(process.held_up for process in self.processes), *late)
        world.run(settled + plan.longest + plan.liveness + 3.0, lambda: False)
        if held := truth.held():
            world.fail(f"still held when every ttl is over: {held}")
        for process in self.processes:
            if not process.dead and not process.loop.idle():
                world.fail(f"{process.name} is not idle after its end")

    def _unclear(self) -> bool:
        return any(
            step.what in ("close", "reserve") or step.how in ("detach", "kept")
            for worker in self.plan.workers
            for step in worker.steps
        )
