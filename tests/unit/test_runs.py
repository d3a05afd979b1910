"""Tables of results in the documentation."""

from __future__ import annotations

from pathlib import Path

from tests.support import runs

PAGE = """before
<!-- servers -->
| server | version | tests |
| --- | --- | --- |
| Redis | 6.2 | 1 passed |
| Redis | 7.4 | 2 passed |
<!-- end -->
after
"""


def test_a_row_takes_the_place_of_its_server(tmp_path: Path) -> None:
    """The others stay: they were run before. Kept by `write_row`."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    runs.write_row(page, "servers", "| Redis | 6.2 | 3 passed |\n", columns=2)
    runs.write_row(page, "servers", "| Valkey | 9.1 | 4 passed |\n", columns=2)
    expected = PAGE.replace("6.2 | 1", "6.2 | 3").replace("<!-- end", "| Valkey | 9.1 | 4 passed |\n<!-- end")
    assert page.read_text() == expected
