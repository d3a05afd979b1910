"""The programs that pages name, in short: they show what the pages say."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.support import mysql, postgres

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
    """The comparison, in short: no way but the one without a lock sells what is not there."""
    seen = await example("alternatives").measure(redis_url, processes=2, customers=40, rounds=1)
    assert [name for name, found in seen.items() if found["oversold"]] == ["no_lock"]
    assert not any(found["unsold"] for found in seen.values())
    assert [name for name, found in seen.items() if found["vain"]] == ["version"]


async def test_the_old_locks_break(redis_url: str) -> None:
    """Each scene of the page's program asserts what it says."""
    assert len(await example("old_locks").show(redis_url)) == 5  # as migrating.md says


async def test_the_locks_of_sql_break() -> None:
    """Each asserts what it says."""
    assert len(await example("database_locks").show(postgres.dsn())) == 3


@pytest.mark.mysql
async def test_the_locks_of_sql_break_in_mysql() -> None:
    """Each asserts what it says."""
    assert len(await example("mysql_locks").show(mysql.url())) == 3


def test_what_a_pair_costs_a_thread(redis_url: str) -> None:
    """The program measures all three."""
    seen = example("sync_cost").measure(redis_url, rounds=1, pairs=3)
    assert list(seen) == ["aiolock.sync", "aiolock, asynchronous", "redis-py, synchronous"]
    assert min(seen.values()) > 0


async def test_many_names(redis_url: str) -> None:
    """The program measures what it says."""
    seen = await example("many_names").measure(redis_url, counts=(2, 65), rounds=1)
    assert list(seen) == [2, 65]
    assert all(cost.script > 0 for cost in seen.values())
