"""The fenced blocks of README.md and of every page under docs/, and how a Python block is run."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Awaitable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple, cast

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIAL = ROOT / "docs/tutorial/index.md"
HOW_TO = (
    "sqlite",
    "database",
    "etcd",
    "zookeeper",
    "deploy",
    "monitoring",
    "quorum",
    "protect-data",
    "primitives",
    "recipes",
    "migrating",
    "frameworks",
    "threads",
    "redisson",
    "hand-over",
    "lock",
    "testing",
    "topologies",
)
PASTED = [
    ROOT / "README.md",
    TUTORIAL,
    *(ROOT / f"docs/reference/{name}.md" for name in ("recipes",)),
    *(ROOT / f"docs/how-to/{name}.md" for name in HOW_TO),
]
"""The pages that are tested as their readers use them: see pasted.py."""
SERVER_URL = "redis://localhost:6379/0"
DATABASE_URL = "postgresql://app@localhost/app"
ETCD_URL = "etcd://localhost:2379"
ZOOKEEPER_URL = "zookeeper://localhost:2181"
_DIRECTIVE = re.compile(r"<!-- test: setup=(\w+) -->")


def name_of(page: Path) -> str:
    """A page's path in the repository."""
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


class Block(NamedTuple):
    """One fenced block; `setup` names a prelude in preludes.py, "" for none."""

    page: Path
    line: int
    language: str
    setup: str
    text: str

    @property
    def id(self) -> str:
        return f"{name_of(self.page)}:{self.line}"

    def source(self, url: str) -> str:
        """The block's text with the URL that the pages use replaced by a test server's."""
        return self.text.replace(SERVER_URL, url)

    def compile(self, url: str) -> CodeType:
        """Compile it; a fragment may `await` at its top level, and a program does not start. Lines are the page's."""
        tree = ast.parse(self.source(url), str(self.page))
        tree.body = [each for each in tree.body if ast.unparse(each) != "asyncio.run(main())"]
        ast.increment_lineno(tree, self.line)
        return compile(tree, str(self.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def blocks(*languages: str) -> Iterator[Block]:
    """All blocks in these languages, in order."""
    return (block for page in PAGES for block in of(page) if block.language in languages)


def of(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    setup = ""
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    for number, line in lines:
        if directive := _DIRECTIVE.fullmatch(line):
            setup = directive[1]
        elif line.startswith("```"):
            body = []
            for _, inner in lines:
                if inner == "```":
                    break
                body.append(inner)
            else:
                raise ValueError(f"{name_of(page)}:{number}: the block never ends")
            yield Block(page, number, line[3:].strip(), setup, "\n".join(body) + "\n")
            setup = ""
        elif line and setup:
            raise ValueError(f"{name_of(page)}:{number}: a test directive without a block")


async def run(block: Block, url: str, namespace: dict[str, Any]) -> None:
    """Run it in `namespace`, on the running loop."""
    code = block.compile(url)
    result = eval(code, namespace)
    if code.co_flags & inspect.CO_COROUTINE:
        await cast(Awaitable[None], result)
