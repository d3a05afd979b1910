"""Keys that nobody will release: held for an owner of which its living manager knows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aiolock.core.holding.release import Release
from tests.support import locks, redisson_wire

from .plan import Plan
from .process import NEVER, Process
from .world import World

if TYPE_CHECKING:
    from aiolock import LockManager
    from aiolock.core.runtime import Runtime
    from aiolock.scripts.store import Store

LONG = 0.2
"""Seconds for which a manager with nothing to write and nothing to hear must know of what it holds."""


class Orphans:
    """Looks for them.

    Args:
        world: the time.
        store: what the server keeps.
        plan: how long a grant lasts at most, and whether late requests may run.

    Attributes:
        on_purpose: owners that were given up for somebody else.
    """

    def __init__(self, world: World, store: Store, plan: Plan) -> None:
        self.on_purpose: set[str] = set()
        self._plan = plan
        self._unburied: dict[str, float] = {}  # owners without the tombstones they had, and since when they hold again
        self._closed: set[str] = set()  # ids of managers that closed when nothing was open
        self._world = world
        self._store = store
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
            for key in locks.tombstones(self._store):
                self._unburied[key.partition(":dead:")[2]] = NEVER
            self._unburied.update(dict.fromkeys(redisson_wire.tombstones(self._store), NEVER))

    def look(self, processes: list[Process], managers: list[LockManager]) -> None:
        """Fail if there is one for longer than a moment."""
        held = dict(self._held())
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
        return owner in self.on_purpose or owner in self._unburied

    def _check_unburied(self, held: dict[str, str]) -> None:
        now, longest = self._world.now, max(self._plan.longest, self._plan.liveness)
        for owner, since in self._unburied.items():
            begin = self._unburied[owner] = min(since, now) if owner in held else NEVER
            if now - begin > longest:
                self._world.fail(f"{owner} came back, and holds {held[owner]} for longer than its ttl")

    def _held(self) -> Iterator[tuple[str, str]]:
        """The owners of what is held, and its keys."""
        for key in locks.held_names(self._store):
            yield from ((owner, key) for owner in locks.holders(self._store, key))
        yield from redisson_wire.holders(self._store)


def _quiet(backend: Any) -> bool:
    """Whether it is connected, and nothing is on its way."""
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
