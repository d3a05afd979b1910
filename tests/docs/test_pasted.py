"""Pages whose reader needs nothing but the page: what they show is what you get."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from .blocks import PASTED, TUTORIAL, name_of, of
from .pasted import NAMED, Reader

VARIES = {
    "sold: 40 of 10": r"sold: (1[1-9]|[234]\d) of 10",
    "lock 'order:42' was not acquired within 0.5 s: held by laptop:4711, and this was number 1 in the queue": (
        r"lock 'order:42' was not acquired within 0\.5 s: held by \S+:\d+, and this was number 1 in the queue"
    ),
    "succeeded in web-3:4711, begun 1 s ago": r"succeeded in \S+:\d+, begun \d+ s ago",
}
"""Lines that differ from run to run, and what they may be."""
PAY = """```python
# pay.py
from aiolock.sync import LockManager
with LockManager("sqlite:///locks.db") as locks:
    for _ in range(2):
        with locks.lock("order:42") as lease:
            print("fence", lease.fence)
```
```console
python pay.py
```
```text
fence {}
fence {}
```
"""
PART = """```python
# pay.py
import asyncio

from aiolock import LockManager

locks = LockManager("sqlite:///locks.db")


async def main():
    async with locks:
        print("paying")


asyncio.run(main())
```
```console
python pay.py
```
```text
paying
```
```python
# in pay.py
async with locks.lock("order:42"):
    print("paid")
```
```text
paid
```
"""


@pytest.mark.slow
@pytest.mark.parametrize("page", PASTED, ids=name_of)
def test_a_page_shows_what_its_reader_gets(page: Path, redis_url: str, tmp_path: Path) -> None:
    """Broken by a program of the page that does not run alone, or by any line that it prints and the page does not."""
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    Reader(tmp_path, redis_url, VARIES).follow(page)
    if page == TUTORIAL:  # whose tests do not touch the shop's database
        with closing(sqlite3.connect(tmp_path / "shop.db")) as db:
            assert db.execute("SELECT sku, left FROM stock").fetchall() == [("book", 0)]


@pytest.mark.parametrize("page", PASTED, ids=name_of)
def test_a_page_begins_with_a_whole_program(page: Path) -> None:
    """Broken by a page of fragments: they are at most a third of its programs, and never the first."""
    whole = [NAMED.match(block.text) is not None for block in of(page) if block.language == "python"]
    assert whole[0]
    assert 3 * whole.count(False) <= len(whole)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PAY.format(1795693176005747, 1795693178050557), None),
        (PAY.format(1795693178050557, 1795693176005747), "do not rise"),
        (PAY.format(1795693176005747, "2"), "printed"),
        (PAY.replace("fence {}\n", "", 1).format(1795693176005747), "printed"),
        (PAY.replace("# pay.py\n", ""), "which name"),
        (PAY.replace("python pay.py", "python pay.py && false"), "exit code 1"),
        (PART, None),
        (PART.replace('print("paid")', "print(order)"), "'order' is not defined"),
        (PART.replace("paid\n```", "```"), "printed"),
        ("```console\npip install 'aiolock-redis[fastapi]' no-such-thing\n```\n", "no-such-thing"),
    ],
)
def test_a_page_that_shows_something_else_is_found(text: str, told: str | None, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    reader = Reader(tmp_path / "empty", "redis://nowhere")
    if told is None:
        reader.follow(page)
    else:
        with pytest.raises(AssertionError, match=told):
            reader.follow(page)
