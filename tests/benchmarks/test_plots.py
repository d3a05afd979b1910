"""The lines that a plot shows, and how you can tell them apart."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from benchmarks.figure import Series
from benchmarks.plot import BOTTOM, HEIGHT, MOST, ROW, STYLES, apart, draw
from benchmarks.plots import chosen

SVG = "{http://www.w3.org/2000/svg}"
POINTS = [(1.0, 1.0), (2.0, 3.0)]


def test_six_lines_at_most_the_known_ones_first() -> None:
    lines = [Series("p", label, POINTS) for label in ("a", "b", "c", "redis-py", "d", "base", "aiolock", "e")]
    shown, left_out = chosen([*lines, Series("p", "empty", [])])
    assert [line.label for line in shown] == ["aiolock", "base", "redis-py", "a", "b", "c"]
    assert left_out == ["d", "e"]


def test_of_two_lines_with_the_same_label_the_first_is_shown() -> None:
    again = Series("p", "aiolock", [(5.0, 5.0)])
    assert chosen([Series("p", "aiolock", POINTS), again])[0][0].points == POINTS


def test_each_line_has_a_colour_and_dashes_of_its_own_and_ours_is_thick() -> None:
    lines = [Series("p", "aiolock", POINTS, "6 % of entries")] + [Series("p", label, POINTS) for label in "abcde"]
    drawn = ElementTree.fromstring(draw("t", "x", "y", lines, thick=["aiolock"]))
    styles = {(line.get("stroke"), line.get("stroke-dasharray")) for line in drawn.iter(f"{SVG}polyline")}
    assert len(styles) == len({dashes for _, dashes in styles}) == len({colour for colour, _ in styles}) == MOST
    assert [line.get("stroke-width") for line in drawn.iter(f"{SVG}polyline")] == ["3.5"] + ["1.5"] * 5
    samples = {(line.get("stroke"), line.get("stroke-dasharray")) for line in drawn.iter(f"{SVG}path")}
    assert styles <= samples  # the legend shows the dashes
    assert "aiolock, 6 % of entries" in {text.text for text in drawn.iter(f"{SVG}text")}
    assert len(STYLES) == MOST


@pytest.mark.parametrize("heights", [[50.0] * 6, [370.0, 369.0, 40.0, 368.0], [60.0, 50.0, 200.0]])
def test_labels_stand_apart_in_the_order_of_their_lines(heights: list[float]) -> None:
    rows = apart(heights)
    assert sorted(range(len(rows)), key=rows.__getitem__) == sorted(range(len(rows)), key=heights.__getitem__)
    assert all(below - above >= ROW for above, below in pairwise(sorted(rows)))
    assert max(rows) <= HEIGHT - BOTTOM
