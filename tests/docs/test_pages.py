"""What the pages say about the repository is true: commands, links, names, and that nothing is left out."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from xml.etree import ElementTree

import pytest

import aiolock
import aiolock.events
import aiolock.recipes
import aiolock.redisson
import aiolock.sync
import aiolock.sync.recipes
import aiolock.sync.redisson
import aiolock.testing
from aiolock import AiolockError, LockManager, LockOptions, LossReason

from .blocks import PAGES, ROOT, blocks, name_of

PUBLIC = {*aiolock.__all__, *aiolock.events.__all__, *aiolock.recipes.__all__, *aiolock.testing.__all__}
TEXTS = {page: page.read_text(encoding="utf-8") for page in (*PAGES, ROOT / "CONTRIBUTING.md")}
FRAMEWORKS = ("aiohttp", "apscheduler", "arq", "celery", "django", "fastapi", "http", "litestar", "starlette", "taskiq")
ENTRY = re.compile(r"^- \[`(aiolock[\w.]+)`\]\(\S+#\1\)", re.M)
ENTRIES = {page: set(ENTRY.findall(text)) for page, text in TEXTS.items()}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
SITE, REPOSITORY = URLS["Documentation"], URLS["Repository"]
HERE = (f"{REPOSITORY}/blob/main/", f"{REPOSITORY.replace('github.com', 'raw.githubusercontent.com')}/main/")
"""How an absolute address begins that means a file of this repository."""


def source(target: str) -> str:
    """The address of the file from which a page of the site is made; other addresses as they are."""
    if not target.startswith(SITE):
        return target
    page, mark, anchor = target.removeprefix(SITE).partition("#")
    return f"{HERE[0]}docs/{page.removesuffix('.html') or 'index'}.md{mark}{anchor}"


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to a page's headings, and the site to entries."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {*ENTRY.findall(text)} | {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_links_lead_somewhere(page) -> None:
    """Broken by a link in a page to a file or heading that is not there."""
    dead = []
    for target in map(source, LINK.findall(TEXTS[page])):
        here = next((start for start in HERE if target.startswith(start)), None)
        if "://" in target and here is None:
            continue
        path, _, anchor = target.removeprefix(here or "").partition("#")
        file = ((ROOT if here else page.parent) / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            dead.append(target)
    assert dead == []


def test_the_readme_links_work_elsewhere() -> None:
    """PyPI shows the README without the repository around it. Broken by a relative link in it."""
    targets = LINK.findall(TEXTS[ROOT / "README.md"])
    assert any(target.startswith(SITE) for target in targets)
    assert [target for target in targets if "://" not in target] == []


def test_every_make_target_exists() -> None:
    """Broken by a `make` command in a page that the Makefile does not know."""
    named = {name for text in TEXTS.values() for name in re.findall(r"(?:`|^)make ([a-z]+)", text, re.M)}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert named >= {"demo", "test"}
    assert named <= set(re.findall(r"^([a-z]+):", makefile, re.M))


def test_every_file_named_exists() -> None:
    """Broken by naming a file of the repository, in backquotes, that is not there."""
    named = {name for text in TEXTS.values() for name in re.findall(r"`((?:docs|tests|aiolock)/[\w./]+)`", text)}
    assert named
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_every_error_and_reason_is_described() -> None:
    """Broken by a public error or reason without a word, in a table and in the tree, in troubleshooting.md."""
    text = TEXTS[ROOT / "docs/how-to/troubleshooting.md"]
    tree = next(block.text for block in blocks("text") if "AiolockError" in block.text)
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    reasons = {reason for row in rows for reason in re.findall(r"`([A-Z_]+)`", row)}
    assert reasons == {reason.name for reason in LossReason}
    errors = {name for name, item in vars(aiolock).items() if inspect.isclass(item) and issubclass(item, AiolockError)}
    assert set(re.findall(r"\w+", tree)) >= errors
    described = {name for row in rows for name in re.findall(r"`([A-Z]\w+)`", row)}
    assert described >= errors - {"AiolockError"}


def test_every_public_name_is_in_the_docs() -> None:
    """Broken by a name in `__all__` that no page mentions."""
    words = set(re.findall(r"\w+", "\n".join(TEXTS.values())))
    assert words >= PUBLIC


def entries(prefix: str) -> set[str]:
    """The names that begin so, and have an entry in the reference: each is an item of a page, which links to itself."""
    return {name.removeprefix(prefix) for names in ENTRIES.values() for name in names if name.startswith(prefix)}


def test_every_public_name_has_a_reference() -> None:
    """Broken by a name in `__all__` without an entry under docs/reference."""
    assert entries("aiolock.") >= {*aiolock.__all__}
    for module in (
        aiolock.events,
        aiolock.recipes,
        aiolock.redisson,
        aiolock.testing,
        aiolock.sync,
        aiolock.sync.recipes,
        aiolock.sync.redisson,
    ):
        again = {name for name in module.__all__ if getattr(module, name) is getattr(aiolock, name, None)}
        assert entries(f"{module.__name__}.") >= {*module.__all__} - again


@pytest.mark.parametrize("page", [page for page in ENTRIES if ENTRIES[page]], ids=name_of)
def test_an_entry_links_to_itself(page) -> None:
    here = f"{SITE}{page.relative_to(ROOT / 'docs').with_suffix('.html')}"
    assert {*re.findall(r"^- \[`aiolock[\w.]+`\]\((\S+)#", TEXTS[page], re.M)} == {here}
    assert "eval-rst" not in TEXTS[page]


def test_every_call_is_shown() -> None:
    """Broken by a public function, or a public method of a lock, that no page calls."""
    text = "\n".join(text for page, text in TEXTS.items() if page.is_relative_to(ROOT / "docs"))
    called = set(re.findall(r"\b(\w+)\(", text))
    functions = {
        name for name in PUBLIC if inspect.isfunction(getattr(aiolock, name, getattr(aiolock.recipes, name, 0)))
    }
    assert functions >= {"leader", "guard"}
    kinds = (LockManager, aiolock.Lock, aiolock.RWLockSide, aiolock.Semaphore, aiolock.Latch, aiolock.Condition)
    methods = {
        name
        for kind in (*kinds, aiolock.Lease)
        for name, item in vars(kind).items()
        if inspect.isfunction(item) and not name.startswith("_")
    }
    assert functions | methods - {"aclose"} <= called


def test_every_framework_has_a_reference_and_an_example() -> None:
    """Broken by a public function or class of a framework's module without an entry, or that no program imports."""
    code = "\n".join(block.text for block in blocks("python"))
    for framework in FRAMEWORKS:
        path = ROOT / "aiolock/contrib" / framework
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        names: set[str] = set()
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif path.is_dir() and isinstance(node, ast.ImportFrom):
                names.update(alias.name for alias in node.names)
        assert {name for name in names if name[0] != "_"} <= entries(f"aiolock.contrib.{framework}."), framework
        assert f"from aiolock.contrib.{framework} import" in code


def test_every_option_is_in_the_table() -> None:
    """Broken by a keyword of the manager or of a lock that options.md has no row for, or by a wrong tick."""
    rows = re.findall(r"^\| `(\w+)` \| (✓?) ?\| (✓?) ?\|", TEXTS[ROOT / "docs/reference/options.md"], re.M)
    manager = inspect.signature(LockManager).parameters
    assert {name for name, first, _ in rows if first} == {*manager} - {"source"}
    assert {name for name, _, second in rows if second} == {*LockOptions.__annotations__}


def test_every_test_tool_is_described() -> None:
    """Broken by a method of the memory backend for tests that testing.md does not show."""
    words = set(re.findall(r"\w+", TEXTS[ROOT / "docs/how-to/testing.md"]))
    own = {name for name in vars(aiolock.testing.MemoryBackend) if not name.startswith("_")}
    assert own - {"open", "aclose", "post", "unreachable"} <= words
    assert {"advance", "jump", "now"} <= words


def test_the_plugin_is_registered() -> None:
    """testing.md says that the fixtures come with the distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "aiolock" in project["entry-points"]["pytest11"]
    assert f"pip install {project['name']}" in TEXTS[ROOT / "README.md"]


def test_prose_fits_the_line() -> None:
    """At most 120 characters a line, without addresses and the rows of tables."""
    long = [
        f"{name_of(page)}:{number}"
        for page, text in TEXTS.items()
        for number, line in enumerate(text.splitlines(), 1)
        if len(re.sub(r"\(https://\S+\)", "", line)) > 120 and not line.startswith("|")
    ]
    assert long == []


def test_diagrams_are_drawn() -> None:
    """The site draws them itself; mermaid ends a statement at a semicolon, and reads # as an entity."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        from sequence import draw
    finally:
        del sys.path[0]
    diagrams = list(blocks("mermaid"))
    assert len(diagrams) >= 3
    for diagram in diagrams:
        assert not set(diagram.text) & set(";#"), diagram.id
        drawn = ElementTree.fromstring(draw(diagram.text.splitlines()))
        words = " ".join(element.text or "" for element in drawn.iter("text"))
        assert all(word in words.split() for word in " ".join(re.findall(r": (.*)", diagram.text)).split()), diagram.id
    with pytest.raises(ValueError, match="activate"):
        draw(["participant A as a", "activate A"])


def test_compatibility_names_what_was_run() -> None:
    """Broken by a server in the tables of the runs that compatibility.md does not name, or one too many."""
    runs = (ROOT / "benchmarks/results/versions.md").read_text(encoding="utf-8").partition("## Servers")[2]
    ran: dict[str, set[str]] = {}
    for server, version in re.findall(r"^\| ([A-Z]\w+) \| (\d[\d.]+) \|", runs, re.M):
        parts = 1 if server == "PostgreSQL" else 2
        ran.setdefault(server, set()).add(".".join(version.split(".")[:parts]))
    page = TEXTS[ROOT / "docs/reference/compatibility.md"].partition("## Servers")[2].partition("\n## ")[0]
    told = {
        name: {*re.findall(r"\d[\d.]*", cell)} for name, cell in re.findall(r"^\| ([A-Z]\w+) \| (.+) \|", page, re.M)
    }
    assert told == ran
