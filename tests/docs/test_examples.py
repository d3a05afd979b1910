"""The programs that pages name, in short: they show what the pages say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from .blocks import ROOT


def example(name: str) -> Any:
    """A program of docs/examples, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/examples/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_stale_writes(redis_url: str) -> None:
    """A frozen holder: without the guard each late write gets in, with it none."""
    tally = await example("stale_writes").demonstrate(redis_url, tries=3, processes=1)
    plain, guarded = "plain SET", "guard()"
    assert (tally[plain, "stale"], tally[guarded, "stale"]) == (3, 0)
    assert tally[guarded, "refused by Redis"] == 3


async def test_the_ways_to_sell(redis_url: str) -> None:
    """The comparison of the page, in short: no way but the one without a lock sells what is not there."""
    seen = await example("alternatives").measure(redis_url, processes=2, customers=40, rounds=1)
    assert [name for name, found in seen.items() if found["oversold"]] == ["no_lock"]
    assert not any(found["unsold"] for found in seen.values())
    assert [name for name, found in seen.items() if found["vain"]] == ["version"]


def test_the_table_of_the_ways_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--write` replaces the page's table with one of the same ways, and nothing else."""
    program, page = example("alternatives"), (ROOT / "docs/how-to/alternatives.md").read_text(encoding="utf-8")
    copy = tmp_path / "how-to" / "alternatives.md"
    copy.parent.mkdir()
    copy.write_text(page, encoding="utf-8")
    monkeypatch.setattr(program, "__file__", str(tmp_path / "examples" / "alternatives.py"))
    program.write({name: dict.fromkeys(("rate", "oversold", "unsold", "vain"), 1.0) for name in program.WAYS})
    old, new = page.splitlines(), copy.read_text(encoding="utf-8").splitlines()
    rows = [(one, other) for one, other in zip(old, new, strict=True) if one != other and other.startswith("|")]
    assert [one.split("|")[1] for one, _ in rows] == [other.split("|")[1] for _, other in rows]
    assert len(rows) == len(program.WAYS)
    rest = [(one, other) for one, other in zip(old, new, strict=True) if one != other and (one, other) not in rows]
    assert all(other.startswith("CPython ") for _, other in rest)  # with today's date


async def test_the_old_locks_break(redis_url: str) -> None:
    """Each scene of the page's program asserts what it says."""
    shown = await example("old_locks").show(redis_url)
    page = (ROOT / "docs/how-to/alternatives.md").read_text(encoding="utf-8")
    assert len(shown) == page.partition("## Locks that you should not write")[2].count("\n| ") - 2


def test_what_a_pair_costs_a_thread(redis_url: str) -> None:
    """The program measures all three."""
    seen = example("sync_cost").measure(redis_url, rounds=1, pairs=3)
    assert list(seen) == ["aiolock.sync", "aiolock, asynchronous", "redis-py, synchronous"]
    assert min(seen.values()) > 0
