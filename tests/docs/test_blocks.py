"""Every Python block of the pages under docs/ runs, but what test_pasted.py runs as the reader does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import plugin_run
from tests.support.installed import at_least

from .blocks import PASTED, Block, blocks, of, run
from .preludes import prelude

PYTHON = [block for block in blocks("python") if block.setup or block.page not in PASTED]
FRAGMENTS = [block for block in PYTHON if block.setup != "pytest"]
TESTING = [block for block in blocks("python") if block.page.stem == "testing"]
NAMED = re.compile(r"# (\w+\.py)\n")
TEST_FILE = re.compile(r"# test_\w+\.py\n")
TEST_FILES = [block for block in PYTHON if block.setup == "pytest"]
TEST_FILES += [block for block in TESTING if TEST_FILE.match(block.text)]
PLUGINS = {
    "asyncio": ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"],
    "anyio": ["-o", "anyio_mode=auto", "-p", "no:asyncio"],
}
if not at_least("anyio", 4, 11):  # has no such mode
    del PLUGINS["anyio"]
CONFTEST = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


@pytest.mark.parametrize("block", FRAGMENTS, ids=lambda block: block.id)
async def test_a_fragment_runs(block: Block, redis_url: str) -> None:
    """Broken by a call in a page that does not exist; the assertions are the page's, and the prelude's at its end."""
    async with prelude(block.setup)(redis_url) as namespace:
        assert block.page not in PASTED or namespace.keys() <= {"__name__"}, "what is tested is what is seen"
        await run(block, redis_url, namespace)


@pytest.mark.slow
@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_test_files_pass(plugin: str, redis_url: str, tmp_path: Path) -> None:
    """Blocks with tests pass like a user's files: in a pytest of their own, under either plugin for async tests."""
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    for block in TEST_FILES:
        folder = tmp_path / f"{block.page.parent.name}_{block.page.stem}_{block.line}"
        folder.mkdir()
        for other in of(block.page):  # a program of the same page, which says its name: the last that stands above
            named = NAMED.match(other.text)
            if named and other.line < block.line and not TEST_FILE.match(other.text):
                (folder / named[1]).write_text(other.source(redis_url), encoding="utf-8")
        (folder / f"test_{block.line}.py").write_text(block.source(redis_url), encoding="utf-8")
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:randomly", *PLUGINS[plugin]]
    done = plugin_run.pytest(tmp_path, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{sum(block.text.count('def test_') for block in TEST_FILES)} passed" in done.stdout
