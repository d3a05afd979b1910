"""What the tests' docstrings name exists: they say which line keeps a promise, and lines move."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiolock

PACKAGE = Path(aiolock.__file__).parent
TESTS = Path(__file__).parents[1]
MEMBER = re.compile(r"\b(_?[A-Z]\w*[a-z]\w*)\.(?!md\b)(\w+)")  # `Class.member`
WORD = re.compile(r"\w+")
PRIVATE = re.compile(r"(?<![\w`'\"])_[A-Za-z]\w+|(?<=`)_[A-Za-z]\w+")
SCRIPT = re.compile(r"\b(\w+)\.lua\b")
FUNCTION = re.compile(r"`(\w+)\(\)`")

Tree = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def trees(tree: Tree) -> Iterator[Tree]:
    """Yield a module, and the classes and functions in it."""
    yield tree
    for node in tree.body:
        if isinstance(node, Tree):
            yield from trees(node)


class Code:
    """What the package and the tests define."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.scripts = {path.stem for path in PACKAGE.rglob("*.lua")}
        self.texts: list[tuple[str, str]] = []  # (test file, docstring)
        self._bases: dict[str, set[str]] = {}
        self._members: dict[str, set[str]] = {}
        for path in PACKAGE.rglob("*.py"):
            self._read(path, package=True)
        for path in TESTS.rglob("*.py"):
            self._read(path, package=False)

    def has(self, owner: str, name: str) -> bool:
        """Whether that class, or one that it extends, has such a member; any name of a foreign class is accepted."""
        if owner not in self._members:
            return owner in self.known
        bases = self._bases[owner]
        return name in self._members[owner] or any(base not in self._members or self.has(base, name) for base in bases)

    def _read(self, path: Path, package: bool) -> None:
        text = path.read_text(encoding="utf-8")
        lines, nodes = text.splitlines(), list(trees(ast.parse(text)))
        for node in nodes:
            docstring = ast.get_docstring(node)
            if docstring is not None:
                if not package:
                    self.texts.append((path.relative_to(TESTS).as_posix(), docstring))
                first, last = node.body[0].lineno, node.body[0].end_lineno or 0
                lines[first - 1 : last] = [""] * (last - first + 1)
        self.known.update(WORD.findall("\n".join(lines)))
        for node in nodes if package else ():
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
                self._bases.setdefault(node.name, set()).update(bases - {"Protocol", "Generic", "object", "NamedTuple"})
                members = WORD.findall("\n".join(lines[node.lineno - 1 : node.end_lineno]))
                self._members.setdefault(node.name, set()).update(members)


@pytest.fixture(scope="module")
def code() -> Code:
    return Code()


def test_names_in_docstrings_exist(code: Code) -> None:
    """Broken by moving or renaming a method that the docstring of a test names."""
    stale = []
    for path, text in code.texts:
        stale += [(path, f"{owner}.{name}") for owner, name in MEMBER.findall(text) if not code.has(owner, name)]
        stale += [(path, name) for name in PRIVATE.findall(text) + FUNCTION.findall(text) if name not in code.known]
        stale += [(path, f"{name}.lua") for name in SCRIPT.findall(text) if name not in code.scripts]
    assert stale == []


@pytest.mark.slow
def test_it_finds_what_moved(code: Code) -> None:
    assert code.has("Hold", "verify")
    assert code.has("FairLock", "acquire")  # its base's
    for owner, name in (("Hold", "verified"), ("Gate", "_transfer"), ("No" + "SuchClass", "verify")):
        assert not code.has(owner, name), (owner, name)
    assert MEMBER.findall("Kept by Hold.verify, `_Timer.cancel`, README.md") == [
        ("Hold", "verify"),
        ("_Timer", "cancel"),
    ]
