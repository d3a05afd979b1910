"""CONTRIBUTING.md shows the code as it is: its walks name what runs, in that order; its words and folders are all."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import aiolock
from aiolock import Lock, LockLost, LockManager
from aiolock.testing import MemoryBackend

from .blocks import ROOT

PACKAGE = Path(aiolock.__file__).parent
SECTIONS = re.split(r"^#{2,3} (.+)\n", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.M)
TEXTS = dict(zip(SECTIONS[1::2], SECTIONS[2::2], strict=True))
WALKS = ("Acquire", "Wait", "Release", "Renew", "Lose")
EVENING = ("One evening in the code", *WALKS)
STEP = re.compile(r"^\| `([\w/]+\.py)` \| `([\w.]+)` \|", re.M)
DEFINED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def members(path: Path) -> Iterator[str]:
    """The functions, classes, and members of classes that a file defines; attributes, too."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, DEFINED):
            continue
        yield node.name
        for inner in ast.walk(node) if isinstance(node, ast.ClassDef) else ():
            match inner:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield f"{node.name}.{name}"
                case ast.AnnAssign(target=ast.Name(id=name)):
                    yield f"{node.name}.{name}"
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    yield f"{node.name}.{name}"


def names(path: Path) -> set[str]:
    """All words of a file."""
    return set(re.findall(r"\w+", path.read_text(encoding="utf-8")))


def quoted(text: str) -> list[str]:
    """What stands in backquotes."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))


@pytest.mark.parametrize("walk", WALKS)
def test_each_step_is_in_its_file(walk: str) -> None:
    """Broken by a step whose function has moved to another file, or has another name."""
    steps = STEP.findall(TEXTS[walk])
    assert len(steps) >= 6
    assert [(file, name) for file, name in steps if name not in {*members(PACKAGE / file)}] == []


def test_each_name_exists() -> None:
    """Broken by a name in backquotes, in a walk or among the words, that no file of the package has."""
    files = [*PACKAGE.rglob("*.py")]
    known = {name for path in files for name in members(path)}
    words = {word for path in files for word in names(path)}
    unknown = []
    for section in (*EVENING, "The words"):
        for name in quoted(TEXTS[section]):
            if name.endswith(".lua"):
                found = (PACKAGE / "scripts/lock" / name).exists()
            elif "/" in name:
                found = (PACKAGE / name.removeprefix("aiolock/")).exists()
            elif re.fullmatch(r"\w+\.\w+", name):
                found = name in known
            else:
                found = not name.isidentifier() or name in words
            if not found:
                unknown.append((section, name))
    assert unknown == []


class Run(list[str]):
    """What has run of the package, in order: `file function`."""

    def follows(self, steps: list[tuple[str, str]]) -> str:
        """Return the first step that did not run after those before it; '' if there is none."""
        ran = iter(self)
        wanted = (f"{file} {name}" for file, name in steps)
        return next((step for step in wanted if step not in ran), "")  # `in` takes what is before it


@contextmanager
def recorded() -> Iterator[Run]:
    """Note each function of the package that is called meanwhile."""
    ran, before = Run(), sys.getprofile()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            ran.append(f"{Path(code.co_filename).relative_to(PACKAGE).as_posix()} {code.co_qualname}")

    sys.setprofile(note)
    try:
        yield ran
    finally:
        sys.setprofile(before)


class Scene:
    """Two processes on one server in memory, and what they do in each walk."""

    def __init__(self, backend: MemoryBackend, lock: Lock, other: Lock) -> None:
        self.backend, self.lock, self.other = backend, lock, other

    async def acquire(self) -> Run:
        with recorded() as ran:
            await self.lock.__aenter__()
        await self.lock.__aexit__(None, None, None)
        return ran

    async def wait(self) -> Run:
        lease = await self.other.acquire()
        with recorded() as ran:
            task = asyncio.create_task(self._enter())
            await self.backend.clock.advance(1.5)  # a third of the liveness, and more
            await lease.release()
            await task
        return ran

    async def release(self) -> Run:
        await self.lock.__aenter__()
        with recorded() as ran:
            await self.lock.__aexit__(None, None, None)
        return ran

    async def renew(self) -> Run:
        with recorded() as ran:
            lease = await self.lock.acquire()
            await self.backend.clock.advance(11.0)  # a third of the ttl, and more
            await lease.release()
        return ran

    async def lose(self) -> Run:
        inside = asyncio.Event()

        async def hold() -> None:
            async with self.lock:
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        await inside.wait()
        with recorded() as ran:
            await self.other.force_release()
            with pytest.raises(LockLost):
                await task
        return ran

    async def _enter(self) -> None:
        async with self.lock:
            pass


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    backend = MemoryBackend()
    async with LockManager(backend) as mine, LockManager(MemoryBackend(backend)) as others:
        yield Scene(backend, mine.lock("x"), others.lock("x"))


@pytest.mark.parametrize("walk", WALKS)
async def test_each_walk_is_taken_in_its_order(scene: Scene, walk: str) -> None:
    """Broken by two steps of a walk in the other order. In memory, so without those of the backend for Redis."""
    ran = await getattr(scene, walk.lower())()
    steps = [step for step in STEP.findall(TEXTS[walk]) if not step[0].startswith("backends/")]
    assert ran.follows(steps) == ""


MOST_OF_OURS = 14
"""Words that are not the field's, which nobody has to learn more of to read an acquire."""


async def test_the_words_are_all_that_an_acquire_needs(scene: Scene) -> None:
    """Broken by a class on the way of a free lock, or of its terms, that is no word; and by a wrong number of them."""
    text = TEXTS["The words"]
    field, ours = (len(re.findall(r"^\| (?!word|---)", part, re.M)) for part in text.split("are ours"))
    said = [int(number) for number in re.findall(r"(\d+) (?:words on|of them|are ours)", text)]
    assert said == [field + ours, field, ours]
    assert ours <= MOST_OF_OURS
    used = {step.split(" ")[1].split(".")[0] for step in await scene.acquire() if step.startswith(("core/", "prim"))}
    used = {name for name in used if name[0].isupper()}
    assert used >= {"Gate", "Hold"}
    assert used | {"Policy", "Bid", "Call", "LockCalls", "Granted", "Runtime"} <= set(quoted(text))


def test_each_file_has_its_tests() -> None:
    """Broken by a file of the package without a test of its name in tests/unit and without a row that says where."""
    table = TEXTS["Where the tests are"].partition("elsewhere:")[2]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|$", table, re.M)
    elsewhere = {ROOT / name for row in rows for name in quoted(row[0])}
    assert {path for path in elsewhere if not path.exists()} == set()
    tested = {path.stem.removeprefix("test_") for path in (ROOT / "tests/unit").glob("test_*.py")}
    files = [path for path in PACKAGE.rglob("*.py") if path.stem.strip("_") not in ("init", "main")]
    homeless = [path for path in files if path.stem not in tested and not elsewhere & {path, *path.parents}]
    assert [path.relative_to(PACKAGE).as_posix() for path in homeless] == []


def test_each_folder_of_tests_answers_a_question() -> None:
    """Broken by a folder under tests/ that no row names, and by a row that names none."""
    named = {name for name in quoted(TEXTS["Where the tests are"]) if re.fullmatch(r"tests/\w+", name)}
    folders = {f"tests/{path.parent.name}" for path in (ROOT / "tests").glob("*/*.py")}
    assert named == folders
