"""What the package logs beside events, as its source says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import aiolock

PACKAGE = Path(aiolock.__file__).parent
LEVELS = {"debug": "DEBUG", "info": "INFO", "warning": "WARNING", "error": "ERROR", "exception": "ERROR"}
SPOKEN_FOR = ("log.py", "event_log.py", "repeats.py")
"""Files with functions that log for others."""


class LogCall(NamedTuple):
    """One place that logs."""

    logger: str
    levels: str
    message: str


def log_calls() -> set[LogCall]:
    """All of them, in all files."""
    return {call for path in sorted(PACKAGE.rglob("*.py")) if path.name not in SPOKEN_FOR for call in of_file(path)}


def of_file(path: Path) -> Iterator[LogCall]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {
        target.id: ast.literal_eval(node.value.args[0])
        for node in tree.body
        if isinstance(node, ast.AnnAssign | ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "Log"
        for target in ([node.target] if isinstance(node, ast.AnnAssign) else node.targets)
        if isinstance(target, ast.Name)
    }
    yield from of_lines(tree, names)
    for logger, name in names.items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from of_function(function, tree, logger, name)


def of_lines(tree: ast.Module, names: dict[str, str]) -> Iterator[LogCall]:
    """Those that are written down as a `Line`: the message about one lock, and that about several."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Line":
            logger, level, *messages = node.args
            name = names[logger.id] if isinstance(logger, ast.Name) else ast.literal_eval(logger.args[0])  # type: ignore[attr-defined]
            assert isinstance(level, ast.Name)
            for message in messages:
                yield LogCall(name, level.id, ast.literal_eval(message))


def of_function(
    function: ast.FunctionDef | ast.AsyncFunctionDef, tree: ast.Module, logger: str, name: str
) -> Iterator[LogCall]:
    given = {
        target.id: node.value
        for body in (tree.body, ast.walk(function))
        for node in body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        how = given.get(node.func.id) if isinstance(node.func, ast.Name) else node.func
        levels = {
            LEVELS[part.attr]
            for part in ast.walk(how or ast.Pass())
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == logger
            and part.attr in LEVELS
        }  # fmt: skip
        if levels and node.args:
            yield LogCall(name, ", ".join(sorted(levels, key=[*LEVELS.values()].index)), text_of(node.args[0], given))


def text_of(node: ast.expr, given: dict[str, ast.expr]) -> str:
    """A message, with `…` for what only the program knows."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if name in given:
            return text_of(given[name], {})
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return text_of(left, given) + text_of(right, given)
        case ast.JoinedStr(values=values):
            return "".join(text_of(value, given) for value in values)
    return "…"
