"""The texts of the package's errors, as its source says."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from aiolock import AiolockError, errors
from aiolock.recipes import not_run

from .log_calls import PACKAGE

UNKNOWN = "…"
"""Stands for what only the program knows."""
ERRORS = {
    name
    for module in (errors, not_run)
    for name, item in vars(module).items()
    if inspect.isclass(item) and issubclass(item, AiolockError)
}
CAUSES = {"ConnectionError", "Misplaced"}
"""Errors whose text becomes a part of that of a `BackendError`."""
OF_PYTHON = {"ImportError", "RuntimeError", "TypeError"}
REASONS = {"cls"}
"""What makes the reason that an `AcquireTimeout` gives: `Kin.of`."""
DEPTH = 6
"""From how many names and calls back a text is fetched."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    """A text, and the place of the call that makes an error of it."""

    place: str
    text: str


@cache
def error_texts() -> set[Found]:
    """All of them, in all files; `…` stands in them for what only the program knows."""
    return {*_texts(ERRORS | REASONS, 1), *_texts(CAUSES | OF_PYTHON, 0)}


def complaints() -> set[Found]:
    """What `Complaints.make` is told to log."""
    return {*_texts({"make"}, 0)}


def _texts(functions: set[str], argument: int) -> Iterator[Found]:
    """What any call of such a function gets for an argument."""
    for path, file in files().items():
        for scope in file.scopes:
            for node in inside(scope):
                if isinstance(node, ast.Call) and name_of(node.func) in functions and len(node.args) > argument:
                    place = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                    yield from (Found(place, text) for text in file.texts(node.args[argument], scope))


class File:
    """A file of the package, and what an expression in it may be."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
        self.scopes: list[ast.AST] = [tree, *self.functions]
        imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
        self._imported = {alias.name for node in imports for alias in node.names}

    def texts(self, node: ast.expr, scope: ast.AST, depth: int = 0) -> Iterator[str]:
        """The texts that an expression may be; of an f-string, its parts, too."""
        parts: list[ast.expr] = []
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=values):
                yield "".join(str(value.value) if isinstance(value, ast.Constant) else UNKNOWN for value in values)
                parts = [value.value for value in values if isinstance(value, ast.FormattedValue)]
            case ast.IfExp(body=one, orelse=other) | ast.BinOp(op=ast.Add(), left=one, right=other):
                parts = [one, other]
            case ast.BoolOp(values=parts) | ast.Dict(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                pass
            case ast.Subscript(value=ast.Name() as value):
                parts = [value]
            case ast.Call(func=ast.Attribute(value=ast.Name() as value, attr="get"), args=[_, *default]):
                parts = [value, *default]
            case ast.Call(func=function) if depth < DEPTH:
                for file, returned, where in self._returned(name_of(function)):
                    yield from file.texts(returned, where, depth + 1)
            case ast.Name(id=name) if depth < DEPTH:
                for file, given, where in self._given(name, scope):
                    yield from file.texts(given, where, depth + 1)
        for part in parts:
            yield from self.texts(part, scope, depth)

    def _returned(self, name: str) -> Iterator[tuple[File, ast.expr, ast.AST]]:
        """What a function returns."""
        for file in self._files(name):
            for function in file.functions:
                if function.name == name:
                    returns = (node for node in inside(function) if isinstance(node, ast.Return))
                    yield from ((file, node.value, function) for node in returns if node.value is not None)

    def _given(self, name: str, scope: ast.AST) -> Iterator[tuple[File, ast.expr, ast.AST]]:
        """What a name may stand for: what is assigned to it, and what callers in the same file pass."""
        places = [(self, scope), *((file, file.tree) for file in self._files(name))]
        for file, where in places:
            yield from ((file, value, where) for value in assigned(name, where))
        if isinstance(scope, Function):
            arguments = [argument.arg for argument in (*scope.args.posonlyargs, *scope.args.args)]
            for caller in self.scopes if name in arguments else ():
                for node in inside(caller):
                    if isinstance(node, ast.Call) and name_of(node.func) == scope.name:
                        at = arguments.index(name) - (arguments[0] == "self")
                        named = [each.value for each in node.keywords if each.arg == name]
                        yield from ((self, value, caller) for value in (*node.args[at : at + 1], *named))

    def _files(self, name: str) -> list[File]:
        """Where a name may come from."""
        return [self, *(files().values() if name in self._imported else ())]


def assigned(name: str, scope: ast.AST) -> Iterator[ast.expr]:
    """What a scope assigns to a name."""
    for node in inside(scope):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(each, ast.Name) and each.id == name for target in targets for each in ast.walk(target)):
                yield node.value


def name_of(function: ast.expr) -> str:
    """The last part of a function's name."""
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


@cache
def inside(scope: ast.AST) -> list[ast.AST]:
    """What is in a file or function, but not in functions inside it."""
    found: list[ast.AST] = []
    for node in ast.iter_child_nodes(scope):
        found += [node] if isinstance(node, Function) else [node, *inside(node)]
    return found


@cache
def files() -> dict[Path, File]:
    """All of the package."""
    return {path: File(ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(PACKAGE.rglob("*.py"))}
