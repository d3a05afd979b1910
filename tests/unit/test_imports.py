"""What an import brings: each process pays for that, and most need little. Times are in `benchmarks/importing.py`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import aiolock

LOCKS = """
import asyncio, sys
from aiolock import LockManager

async def main():
    async with LockManager({source!r}) as locks:
        async with locks.lock("a").acquire(timeout=5):
            pass

asyncio.run(main())
print(*sys.modules)
"""
SERVER = "import aiolock\naiolock.LockManager('redis://localhost')"


def imported(code: str, *, without: tuple[str, ...] = (), folder: Path | None = None) -> set[str]:
    """Return the modules that a fresh interpreter has when it has run `code`, without those that it may not have."""
    missing = "".join(f"sys.modules[{name!r}] = " for name in without)
    program = f"import sys\n{missing and missing + 'None'}\n{code}\nprint(*sys.modules)"
    ran = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(ran, check=True, capture_output=True, text=True, cwd=folder)
    return set(done.stdout.split())


def ours(code: str) -> set[str]:
    return {name for name in imported(code) if name.partition(".")[0] == "aiolock"}


@pytest.mark.parametrize(
    ("code", "most"),
    [
        ("import aiolock", 1),
        ("import aiolock.cli.entry", 3),
        ("import aiolock.testing.pytest_plugin", 3),
        ("from aiolock import LockManager", 76),
        ("from aiolock import LockManager, LockLost, Lock, Lease, events", 76),
        (SERVER, 100),
        ("import aiolock.sync", 154),
    ],
)
def test_how_many_modules(code: str, most: int) -> None:
    """If there are more, ask who needs them. If there are fewer, write that down."""
    assert len(ours(code)) == most


@pytest.mark.parametrize("name", aiolock.__all__)
def test_each_name_of_the_package_alone(name: str) -> None:
    """Those for type checkers, those at run time, and `__all__` are the same. Kept by `aiolock.__getattr__`."""
    tree = ast.parse(Path(aiolock.__file__).read_text(encoding="utf-8"))
    typed = {
        f"aiolock.{node.module}": alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
        if alias.name == name
    }
    (module,) = typed
    assert getattr(aiolock, name).__module__.startswith(module.rpartition(".")[0])
    assert getattr(aiolock, name) is getattr(sys.modules[module], name)


def test_names_that_the_package_does_not_have() -> None:
    assert {*aiolock.__all__} <= {*dir(aiolock)}
    assert not hasattr(aiolock, "TYPE_CHECKING")
    assert aiolock.events.Event.__module__ == "aiolock.events"
    with pytest.raises(AttributeError, match="module 'aiolock' has no attribute 'Mutex'") as caught:
        aiolock.Mutex  # type: ignore[attr-defined]  # noqa: B018
    assert caught.value.name == "Mutex"


def test_rare_parts_are_imported_on_first_use() -> None:
    """Guards the imports in `backend_of`, `servers_of`, `LockManager.quorum`, and in the factories."""
    found = imported(SERVER)
    backends = ("cluster", "sentinel", "quorum", "sqlite", "memory", "replicated")
    primitives = ("condition", "fair_lock", "latch", "multi_lock", "rw_lock", "semaphore")
    rare = {f"aiolock.backends.{name}" for name in backends} | {f"aiolock.primitives.{name}" for name in primitives}
    rare |= {"aiolock.recipes", "aiolock.scripts.queue", "aiolock.scripts.multi", "aiolock.contrib", "aiolock.sync"}
    assert found & rare == set()
    assert found >= {"aiolock.backends.redis", "redis"}


@pytest.mark.parametrize("source", ["postgresql://localhost/app", "mysql://localhost/app"])
def test_locks_in_a_database_need_no_redis(source: str) -> None:
    """Nor do they need what only looks at them. Kept by the packages of these backends."""
    found = imported(f"import aiolock\naiolock.LockManager({source!r})")
    assert not any(name.startswith(("redis", "aiolock.backends.redis", "aiolock.backends.survey")) for name in found)


@pytest.mark.parametrize("source", ["sqlite:///locks.db", "memory://"])
def test_only_locks_on_a_server_need_redis(source: str, tmp_path: Path) -> None:
    """Its import takes longer than all the rest. Guards the imports in `backend_of`, and all that are never reached."""
    code = LOCKS.format(source=source)
    found = imported(code, folder=tmp_path)
    assert {name.partition(".")[0] for name in found} & {"redis", "hiredis", "valkey"} == set()
    assert not any(name.startswith("aiolock.backends.redis") for name in found)
    assert imported(code, without=("redis", "hiredis"), folder=tmp_path) >= {"aiolock.manager"}


KINDS = """
async def use(locks):
    async with locks.lock("a"), locks.fair_lock("f"), locks.semaphore("s", permits=2), locks.rw_lock("r").read:
        assert (await locks.lock("a").info()).fence
    async with locks.multi_lock("b", "c"):
        pass
"""


def test_the_library_stands_without_what_is_around_it(tmp_path: Path) -> None:
    """Recipes, threads, frameworks, the kit and the command line can go. Kept by imports in functions, too."""
    around = ("contrib", "cli", "recipes", "redisson", "sync", "testing")
    code = LOCKS.format(source="sqlite:///locks.db").replace("pass", "await use(locks)")
    left = imported(KINDS + code, without=tuple(f"aiolock.{name}" for name in around), folder=tmp_path)
    assert not any(name.startswith(tuple(f"aiolock.{name}." for name in around)) for name in left)
    assert left >= {"aiolock.manager", "aiolock.primitives.multi_lock"}
