"""The code that enters a block: identified by its frame, and warned if it would hold the lock over a `yield`."""

from __future__ import annotations

import ast
import inspect
import warnings
from functools import lru_cache
from sys import _getframe
from types import CodeType, FrameType

GENERATOR = inspect.CO_ASYNC_GENERATOR
BETWEEN = frozenset({"__aenter__", "enter_async_context", "__enter__", "enter_context"})
"""Functions that enter a block on behalf of others: those of `contextlib`, and users' own."""
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def caller(name: str) -> tuple[int, CodeType, bool]:
    """Return who awaits the `__aenter__` that calls this, for the lock `name`.

    Returns:
        The id of its frame, its code, and whether the block is held over a `yield` of an async generator. What an
        `asynccontextmanager` yields to does not count: that runs in the block.
    """
    try:
        frame = _getframe(2)
    except ValueError:  # no Python frame around
        return 0, caller.__code__, False
    code = frame.f_code
    # Only an id: the frame itself would keep its contents alive.
    if code.co_flags & GENERATOR or code.co_name in BETWEEN:
        return id(frame), code, _spans(frame, name)
    return id(frame), code, False


def instance(frame: FrameType) -> int:
    """Return the id of the object whose method runs in `frame`, as an exit stack's; 0 if none's does."""
    code = frame.f_code
    if code.co_argcount and code.co_varnames[0] == "self":
        return id(frame.f_locals.get("self"))
    return 0


def _spans(frame: FrameType | None, name: str) -> bool:
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
