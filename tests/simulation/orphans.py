"""Keys that nobody will release: held for an owner of which its living manager knows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from aiolock.backends.coordinator import CoordinatorBackend
from aiolock.backends.transactional.backend import TransactionalBackend
from aiolock.core.holding.release import Release
from aiolock.owner import is_kept

from .plan import Plan
from .process import NEVER, Process
from .queues import SimulatedQueues
from .rows import SimulatedDatabase
from .world import World

if TYPE_CHECKING:
    from aiolock import LockManager
    from aiolock.core.runtime import Runtime

    from .truth import Truth

LONG = 0.2
"""Seconds for which a manager with nothing to write and nothing to hear must know of what it holds."""


class Orphans:
    """Looks for them.

    Args:
        world: the time.
        truth: what the server keeps.
        plan: how long a grant lasts at most, and whether late requests may run.

    Attributes:
        on_purpose: owners that were given up for somebody else.
    """

    def __init__(self, world: World, truth: Truth, plan: Plan) -> None:
        self.on_purpose: set[str] = set()
        self._plan = plan
        self._unburied: dict[str, float] = {}  # owners without the tombstones they had, and since when they hold again
        self._closed: set[str] = set()  # ids of managers that closed when nothing was open
        self._world = world
        self._truth = truth
        self._since: dict[str, float] = {}

    def closes(self, manager: LockManager) -> None:
        """A manager is about to close."""
        runtime = manager._runtime
        if _quiet(runtime.backend) and not list(_known(runtime)):
            self._closed.add(runtime.binding.id)

    def forgets(self) -> None:
        """The server is about to lose its data.

        Where CLIENT KILL is denied, only tombstones refuse a request that a dead connection held up. Of an owner whose
        tombstone is lost, such a request may be granted; nobody renews that, so it lasts for its ttl.
        """
        if not self._plan.kill:
            self._unburied.update(dict.fromkeys(self._truth.dead(), NEVER))

    def look(self, processes: list[Process], managers: list[LockManager]) -> None:
        """Fail if there is one for longer than a moment."""
        held = dict(self._truth.owners())
        since, self._since = self._since, {}
        self._check_unburied(held)
        for owner, key in held.items():
            if owner.partition(":")[0] in self._closed and not self._excused(owner):
                self._world.fail(f"{owner} of a closed manager holds {key}")
        for process, manager in zip(processes, managers, strict=True):
            runtime = manager._runtime
            if process.dead or not runtime.binding.usable or not _quiet(runtime.backend):
                continue
            known = set(_known(runtime))
            for owner, key in held.items():
                if owner.startswith(runtime.binding.id) and owner not in known and not self._excused(owner):
                    begin = self._since[owner] = since.get(owner, self._world.now)
                    if process.ran(begin, self._world.now) > LONG:
                        self._world.fail(f"{process.name} does not know of {owner}, which holds {key}")

    def _excused(self, owner: str) -> bool:
        return owner in self.on_purpose or owner in self._unburied or is_kept(owner)

    def _check_unburied(self, held: dict[str, str]) -> None:
        now, longest = self._world.now, max(self._plan.longest, self._plan.liveness)
        for owner, since in self._unburied.items():
            begin = self._unburied[owner] = min(since, now) if owner in held else NEVER
            if now - begin > longest:
                self._world.fail(f"{owner} came back, and holds {held[owner]} for longer than its ttl")


def _quiet(backend: Any) -> bool:
    """Whether it is connected, and nothing is on its way."""
    if isinstance(backend, CoordinatorBackend):
        return bool(cast(SimulatedQueues, backend._store).up and not backend._tasks)
    if isinstance(backend, TransactionalBackend):
        return cast(SimulatedDatabase, backend._engine).up and not backend._waiting and not backend._asked
    session = backend._session
    return session is not None and not session.replies.pending and backend._outbox.empty


def _known(runtime: Runtime) -> Iterator[str]:
    yield from (owner for owner, hold in runtime.holds.items() if hold.entered)  # a task goes in at once, or gives up
    yield from runtime.queue_entries
    scheduler = runtime.scheduler
    for items in scheduler._seconds.values():
        yield from (item._owner for item in items if isinstance(item, Release))
    for _, _, item, _ in scheduler._heap:
        if isinstance(item, Release):
            yield item._owner
