"""What each task of a process holds, found by task and name however much else is held; and what its ancestors hold."""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from sys import getrefcount

from .hold import Hold
from .level import Home, Level


class TaskLeases:
    """The leases of one task in one manager, by name, innermost last.

    The task's context keeps it, and so do those of the tasks that it starts. It is emptied with the last lease, so that
    nothing is kept of what has ended.

    Args:
        mark: the manager's.
        task: the task.
        outer: the same of the task that started this one.

    Attributes:
        waits: what it waits for, if that was not granted at once.
    """

    __slots__ = ("leases", "mark", "outer", "overlapping", "task", "waits")

    def __init__(self, mark: object, task: asyncio.Task[object], outer: TaskLeases | None) -> None:
        self.mark: object = mark
        self.task: weakref.ref[asyncio.Task[object]] = weakref.ref(task)
        self.outer: TaskLeases | None = outer
        self.leases: dict[Home, tuple[Level, ...]] = {}
        self.waits: object = None
        self.overlapping: tuple[Level, ...] = ()  # those of names that can also be taken through another queue

    def __iter__(self) -> Iterator[Level]:
        for leases in self.leases.values():
            yield from leases


_current: ContextVar[TaskLeases | None] = ContextVar("aiolock_holds", default=None)
"""What the running task, or the one that started it, holds or held. This only detects: ownership is by task."""


def held_by_kin() -> TaskLeases | None:
    """What the running task holds; if that is nothing, what the nearest one does that led to it."""
    return _holding(_current.get())


def lineage(first: TaskLeases | None) -> Iterator[TaskLeases]:
    """What a task holds, and then the tasks that led to it, beginning with `first`."""
    holds = _holding(first)
    while holds is not None:
        yield holds
        holds = _holding(holds.outer)


class LeasesByTask:
    """The leases of a manager by their task; a task that ends leaves none behind.

    Args:
        context: the context of callbacks that outlive the task that set them.

    Attributes:
        by_task: what each has; not those that have nothing.
    """

    __slots__ = ("_context", "_mark", "_on_end", "by_task")

    def __init__(self, context: contextvars.Context) -> None:
        self.by_task: dict[asyncio.Task[object] | None, TaskLeases] = {}
        self._context = context
        self._mark = object()
        self._on_end = self._end  # one for all tasks

    def of(self, task: asyncio.Task[object] | None) -> TaskLeases | None:
        """Everything that `task` holds; None if that is nothing."""
        return self.by_task.get(task)

    def on(self, home: Home, task: asyncio.Task[object] | None) -> tuple[Level, ...]:
        """The leases of `task` on the name of `home`, innermost last."""
        holds = self.of(task)
        return () if holds is None else holds.leases.get(home, ())

    def add(self, lease: Level) -> None:
        """Add a lease; called in its task."""
        hold, task, alone = lease._hold, lease._task, (lease,)
        hold.leases += alone
        if task is None:
            return
        holds = self.by_task.get(task)
        if holds is None:
            holds = _current.get()
            if holds is None or holds.mark is not self._mark or holds.task() is not task:
                holds = TaskLeases(self._mark, task, _pruned(holds))
                _current.set(holds)
            elif holds.outer is not None:
                holds.outer = _pruned(holds.outer)
            self.by_task[task] = holds
            # In the manager's context: a copy of the task's would live as long as the lease.
            task.add_done_callback(self._on_end, context=self._context)
        home, leases = hold.home, holds.leases
        leases[home] = leases[home] + alone if home in leases else alone
        if home.contention.overlapping:
            holds.overlapping += alone

    def remove(self, lease: Level) -> None:
        """A lease ends."""
        hold, task = lease._hold, lease._task
        if task is None and lease not in hold.leases:
            hold.strays = tuple([stray for stray in hold.strays if stray() is not lease])
            return
        hold.leases = () if len(hold.leases) == 1 else _without(hold.leases, lease)
        if task is None:
            return
        home, holds = hold.home, self.by_task[task]
        if holds.overlapping and home.contention.overlapping:
            holds.overlapping = () if len(holds.overlapping) == 1 else _without(holds.overlapping, lease)
        leases = holds.leases
        if len(leases[home]) > 1:
            leases[home] = _without(leases[home], lease)
        elif len(leases) > 1:
            del leases[home]
        else:
            leases.clear()  # frees the dict's table, which deleting entries does not
            del self.by_task[task]
            task.remove_done_callback(self._on_end)

    def dropped(self, hold: Hold) -> bool:
        """Whether its user has dropped one of its leases, and the lock through which it was acquired: only the release
        of another lock object of that name, in its task, can end that.

        A lease is kept here anyway, as that task may do so. So this counts who else refers to it.
        """
        for lease in hold.leases:
            unlocked = lease._lock is None or lease._lock() is None
            if unlocked and lease._guard is None and lease._task is not None:
                own = self.by_task[lease._task]
                kept = (hold.leases, own.leases[hold.home], own.overlapping)
                if _references(lease, kept) <= _UNUSED:
                    return True
        return False

    def _end(self, task: asyncio.Task[object]) -> None:
        """The task ended, and has leases. From now on only its user can release one that it acquired manually."""
        holds = self.by_task.pop(task, None)
        if holds is None:
            return  # the last one was released in the meantime
        leases = list(holds)
        holds.leases.clear()
        holds.overlapping = ()
        for lease in reversed(leases):
            lease._task = None
            if lease._guard is None:
                lease._hold.leases = _without(lease._hold.leases, lease)
                lease._hold.strays += (weakref.ref(lease),)
            else:
                lease._guard.abandon()
                lease._give_up("dirty", abandoned=True)


def _references(thing: object, kept: tuple[tuple[object, ...], ...]) -> int:
    """How many references there are to `thing`, without those of the different tuples of `kept`."""
    return getrefcount(thing) - len({id(things) for things in kept if thing in things})


def _unused() -> int:
    """What `_references()` says of something that only tuples, and a loop that looks at them, refer to."""
    things = (object(),)
    for thing in things:
        return _references(thing, (things,))
    return 0


_UNUSED = _unused()


def _without(leases: tuple[Level, ...], lease: Level) -> tuple[Level, ...]:
    return tuple([other for other in leases if other is not lease])


def _holding(holds: TaskLeases | None) -> TaskLeases | None:
    while holds is not None and not holds.leases:
        holds = holds.outer
    return holds


def _pruned(outer: TaskLeases | None) -> TaskLeases | None:
    """Skip links that hold nothing any more, so that no chain grows forever."""
    outer = holds = _holding(outer)
    while holds is not None:
        holds.outer = _holding(holds.outer)
        holds = holds.outer
    return outer
