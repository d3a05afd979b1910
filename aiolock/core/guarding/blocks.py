"""The blocks that were entered through one lock object: which of them ends when one is left."""

from __future__ import annotations

import ast
import asyncio
import inspect
import warnings
from collections.abc import Iterator
from functools import lru_cache
from sys import _getframe
from types import CodeType, FrameType

from .guard import Guard

GENERATOR = inspect.CO_ASYNC_GENERATOR
BETWEEN = frozenset({"__aenter__", "enter_async_context", "__enter__", "enter_context"})
"""Functions that enter a block on behalf of others: those of `contextlib`, and users' own."""
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def instance(frame: FrameType) -> int:
    """Return the id of the object whose method runs in `frame`, as an exit stack's; 0 if none's does."""
    code = frame.f_code
    if code.co_argcount and code.co_varnames[0] == "self":
        return id(frame.f_locals.get("self"))
    return 0


def spans(frame: FrameType | None, name: str) -> bool:
    """Whether the block that is entered in `frame` is held over a `yield` of an async generator. What an
    `asynccontextmanager` yields to does not count: that runs in the block.

    Args:
        frame: what awaits an `__aenter__`; None if no Python code does.
        name: the lock's name, for the warning.
    """
    while frame is not None:
        code, driver = frame.f_code, frame.f_back
        if code.co_flags & GENERATOR and (driver is None or driver.f_code.co_name not in BETWEEN):
            if _yields_inside(code, frame.f_lineno):
                _warn(frame, name)
                return True
            return False
        if code.co_name not in BETWEEN and not code.co_flags & GENERATOR:
            return False
        frame = driver
    return False


def _warn(frame: FrameType, name: str) -> None:
    warnings.warn_explicit(
        f"async generator {frame.f_code.co_qualname}() holds lock {name!r} over a `yield`: if the lock is lost, the "
        "code that iterates is cancelled, and gets LockLost only if it closes the generator (contextlib.aclosing). "
        "Release before you yield, or take the lock in the code that iterates",
        RuntimeWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


@lru_cache(maxsize=256)
def _yields_inside(code: CodeType, line: int) -> bool:
    """Whether there is a `yield` in the `async with` that begins at `line`, or after the line if none begins there."""
    try:
        source = inspect.getsource(code)
        indented = source[:1].isspace()  # keep the indentation: strings would lose theirs, too
        tree = ast.parse(f"if True:\n{source}" if indented else source)
    except (OSError, TypeError, SyntaxError):
        return True  # no source to look at
    named = [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef) and node.name == code.co_name]
    if not named:
        return True  # the source of something else
    ast.increment_lineno(tree, code.co_firstlineno - 1 - indented)
    blocks = [
        node
        for node in ast.walk(named[0])
        if isinstance(node, ast.AsyncWith) and node.lineno <= line <= (node.items[-1].context_expr.end_lineno or 0)
    ]
    if blocks:
        return any(_yields(statement) for block in blocks for statement in block.body)
    return any(isinstance(node, ast.Yield) and node.lineno > line for node in ast.walk(named[0]))


def _yields(node: ast.AST) -> bool:
    if isinstance(node, INNER):
        return False
    return isinstance(node, ast.Yield) or any(_yields(child) for child in ast.iter_child_nodes(node))


class Blocks(dict[int, Guard]):
    """Open blocks by the frame that entered them: the innermost of each, the last entered at the end.

    `async with` leaves in the frame in which it entered, so that is certain, whatever task runs it. If `__aenter__` and
    `__aexit__` are called in other ways, the object that calls them decides, such as an exit stack, and then the task.
    A block that may still run is never ended instead of another.
    """

    __slots__ = ()

    def enter(self, guard: Guard, several: bool) -> None:
        """A block begins; called by the `__aenter__` of the lock object.

        Args:
            guard: the block.
            several: its task has others on the name, so that it may be unclear which of them is left.
        """
        if guard.frame and (several or guard.code.co_name in BETWEEN):
            guard.via = instance(_getframe(2))
        guard.outer = self.pop(guard.frame, None)
        self[guard.frame] = guard

    def leave(self, task: asyncio.Task[object] | None) -> Guard | None:
        """A block is left, in `task`; called by the `__aexit__` of the lock object.

        Returns:
            That block; None if it is unclear which, or none is open.
        """
        if len(self) == 1:
            frame, guard = self.popitem()
            if guard.task is task and guard.outer is None:
                return guard
            self[frame] = guard
        via = 0
        try:
            caller = _getframe(2)
        except ValueError:  # no Python frame around
            pass
        else:
            frame, code, via = id(caller), caller.f_code, instance(caller)
            known = self.get(frame)
            # Ids of ended frames are reused. A coroutine ends in its task; a generator may be closed by another.
            if known is not None and known.code is code and (known.task is task or code.co_flags & GENERATOR):
                self._remove(known)
                return known
        known = self._of(task, via)
        if known is not None:
            self._remove(known)
        return known

    def _of(self, task: asyncio.Task[object] | None, via: int) -> Guard | None:
        running = set(_stack())  # their blocks run on, unless they are left in an odd way
        idle = [guard for guard in self.all() if (guard.frame, guard.code) not in running]
        for guard in idle:
            if via and guard.via == via:
                return guard
        mine = [guard for guard in self.all() if guard.task is task]
        others = [guard for guard in self.all() if guard.task is not task]
        if not mine:
            ended = all(guard.task is None or guard.task.done() for guard in others)
            return others[0] if len(others) == 1 or (others and ended) else None
        # Rather one that no object is known to have entered: another object's may still be in use.
        known = sorted((guard for guard in mine if guard in idle), key=lambda guard: guard.via > 0)
        if known:
            return known[0]
        return None if others else mine[0]

    def all(self) -> Iterator[Guard]:
        """Innermost first."""
        for guard in reversed(self.values()):
            inner: Guard | None = guard
            while inner is not None:
                yield inner
                inner = inner.outer

    def _remove(self, guard: Guard) -> None:
        inner = self[guard.frame]
        if inner is not guard:
            while inner.outer is not guard and inner.outer is not None:
                inner = inner.outer
            inner.outer = guard.outer
        elif guard.outer is not None:
            self[guard.frame] = guard.outer
        else:
            del self[guard.frame]


def _stack() -> Iterator[tuple[int, CodeType]]:
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        yield id(frame), frame.f_code
        frame = frame.f_back
