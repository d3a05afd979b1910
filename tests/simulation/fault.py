"""What goes wrong, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .plan import DELAYS, Fault
from .process import Process

if TYPE_CHECKING:
    from .scene import Scene

BREACHES = frozenset({"flush", "restart_empty", "jump"})
"""What ends holds before their time."""


class Faults:
    """The faults of a plan.

    Args:
        scene: what they happen to.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._runs: dict[tuple[str, int], list[Fault]] = {}
        for fault in scene.plan.faults:
            if isinstance(fault.at, tuple) and fault.at[0] == "step":
                number = fault.at[1]
                scene.world.before_step[number] = self._after(scene.world.before_step.get(number), fault)
            elif isinstance(fault.at, tuple):
                self._runs.setdefault(fault.at, []).append(fault)

    def _after(self, first: Callable[[], None] | None, fault: Fault) -> Callable[[], None]:
        def act() -> None:
            if first is not None:
                first()
            self._happen(fault, None)

        return act

    def begin(self) -> None:
        """Set the times."""
        for fault in self._scene.plan.faults:
            if not isinstance(fault.at, tuple):
                self._scene.world.after(fault.at, self._happen, fault, None)

    def around(self, side: str, number: int, process: Process) -> None:
        """A script runs, or something was sent."""
        for fault in self._runs.get((side, number), ()):
            self._happen(fault, process)

    def _happen(self, fault: Fault, caller: Process | None) -> None:
        scene, world = self._scene, self._scene.world
        target = caller if fault.target < 0 else scene.processes[fault.target % len(scene.processes)]
        if target is None:
            target = scene.processes[fault.n % len(scene.processes)]
        world.note(fault.what, f"{fault.seconds:.3f} {fault.n}", target.name)
        if fault.what in BREACHES:
            scene.model.breach()
        if fault.what not in DELAYS:
            scene.model.trouble(fault.seconds)
        getattr(self, f"_{fault.what}")(fault, target)

    # The network.

    def _cut(self, fault: Fault, process: Process) -> None:
        """The process's connections die; requests on their way run or not, some of them late."""
        for connection in process.connections:
            if connection.open:
                connection.break_off(None, fault.seconds)

    def _sever(self, fault: Fault, process: Process) -> None:
        """The process's connections die; n chunks on their way still arrive, late."""
        for connection in process.connections:
            if connection.open:
                connection.break_off(min(fault.n, len(connection.up.items)), fault.seconds)

    def _late_up(self, fault: Fault, process: Process) -> None:
        process.held_up = max(process.held_up, self._scene.world.now + fault.seconds)

    def _late_down(self, fault: Fault, process: Process) -> None:
        process.held_down = max(process.held_down, self._scene.world.now + fault.seconds)

    def _late_turn(self, fault: Fault, process: Process) -> None:
        process.stall(fault.seconds)

    def _lose_reply(self, fault: Fault, process: Process) -> None:
        """The connection dies after everything has run, and before any answer arrives."""
        for connection in process.connections:
            if connection.open:
                connection.break_off(len(connection.up.items), 0.0)

    def _hold(self, fault: Fault, process: Process) -> None:
        """The network holds bytes back, and releases them later: upwards, downwards, or both."""
        until = self._scene.world.now + fault.seconds
        if fault.n % 3 != 1:
            process.held_up = max(process.held_up, until)
        if fault.n % 3 != 0:
            process.held_down = max(process.held_down, until)

    # Processes.

    def _stall(self, fault: Fault, process: Process) -> None:
        process.stall(fault.seconds)

    def _die(self, fault: Fault, process: Process) -> None:
        if not process.dead:
            process.die(unplugged=bool(fault.n % 2))
            self._scene.died(process)

    def _cancel(self, fault: Fault, process: Process) -> None:
        """A task is cancelled; for n > 0 twice."""
        actors = self._scene.actors
        if actors:
            actor = actors[fault.n // 2 % len(actors)]
            if isinstance(fault.at, tuple) and fault.at[0] == "step":
                actor.cancel()  # between two callbacks
            else:
                self._scene.world.after(0.0, actor.cancel)  # not from inside the task itself
            if fault.n % 2:
                self._scene.world.after(1e-6 + fault.seconds, actor.cancel)

    # The server.

    def _flush(self, fault: Fault, process: Process) -> None:
        self._scene.orphans.forgets()
        self._scene.server.forget()

    def _lose_queue(self, fault: Fault, process: Process) -> None:
        """The server evicts the queues of locks."""
        self._scene.model.queue_lost()
        store = self._scene.server.store
        for key in sorted(store.keys()):
            if key.endswith(":queue"):
                store.delete(key)

    def _forget_scripts(self, fault: Fault, process: Process) -> None:
        self._scene.server.forget_scripts()

    def _restart(self, fault: Fault, process: Process) -> None:
        """The server dies and comes back with its data."""
        self._stop(fault, forgets=False)

    def _restart_empty(self, fault: Fault, process: Process) -> None:
        """The server dies and comes back without data."""
        self._stop(fault, forgets=True)

    def _stop(self, fault: Fault, *, forgets: bool) -> None:
        self._scene.server.stop(forgets=forgets)
        self._scene.world.after(fault.seconds, self._back)

    def _back(self) -> None:
        self._scene.server.down = False
        self._scene.world.note("back")

    def _busy(self, fault: Fault, process: Process) -> None:
        """The server does nothing for a while."""
        server = self._scene.server
        server.busy_until = max(server.busy_until, self._scene.world.now + fault.seconds)

    def _refuse(self, fault: Fault, process: Process) -> None:
        """The server answers with passing errors for a while."""
        text = ("LOADING still loading", "BUSY a script runs", "OOM out of memory", "MISCONF cannot persist")
        self._scene.server.refuses = text[fault.n % len(text)]
        self._scene.world.after(fault.seconds, self._serve)

    def _serve(self) -> None:
        self._scene.server.refuses = ""

    def _jump(self, fault: Fault, process: Process) -> None:
        """The server's clock is set forwards."""
        self._scene.server.jumped_us += round(fault.seconds * 1_000_000)
