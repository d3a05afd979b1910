"""The page shows the run that is kept beside it, and no number in it was typed."""

from __future__ import annotations

import json

from .page import KEPT, PAGE, insert, render


def test_the_page_shows_the_report() -> None:
    """Broken by a table that was changed by hand; `python -m tests.histories.page` writes both."""
    text = PAGE.read_text(encoding="utf-8")
    assert insert(text, json.loads(KEPT.read_text(encoding="utf-8"))) == text


def test_what_was_broken_is_told() -> None:
    spread = {"count": 1, "median": 0.51, "p99": 0.61, "longest": 0.71}
    place = {
        "name": "server", "rounds": 1, "operations": 1234, "grants": 5, "writes": 6, "refused": 7, "faults": {"cut": 8},
        "lost": {"EXPIRED": 9}, "recoveries": spread, "violations": ["one\nmore", "two"],
    }  # fmt: skip
    text = render(
        {
            "command": "make chaos --minutes 1 --seed 7", "began": "now", "seconds": 60, "machine": "it",
            "versions": {"python": "3"}, "places": [place],
            "rounds": [{"seed": "7:1", "place": "server", "violations": place["violations"]}],
        }
    )  # fmt: skip
    assert "`make chaos ARGS='--minutes 1 --seed 7'`" in text
    assert "| server | 1 | 1,234 | 8 | 0.5 s, 0.6 s, 0.7 s | 2 |" in text
    assert "| 7:1 | server | one (and 1 more) |" in text
    assert "| EXPIRED | 9 |" in text
    assert "**broken promises: 2**" in text
