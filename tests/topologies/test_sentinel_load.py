"""A master that Sentinels replace, under load."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support import locks
from tests.support.scripting import wait_until
from tests.support.sentinels import SentinelSet

from .conftest import StartLoad
from .load import BUSY, LONG, PLAIN, REPLICATED
from .verdict import WINDOW, judge

pytestmark = pytest.mark.takes_long

NAMES = {"busy": BUSY, "long": LONG}


def nothing_left(sentinels: SentinelSet) -> None:
    """No key is held, and no connection is left of processes that have ended."""
    master = sentinels.link(sentinels.master())
    assert locks.nothing_held(master), master.keys("*")
    for server in (*sentinels.servers, *sentinels.sentinels):
        wait_until(lambda server=server: sentinels.clients(server) == 0)  # type: ignore[misc]


@pytest.mark.parametrize("options", [PLAIN, REPLICATED])
async def test_a_failover_is_ordered(sentinels: SentinelSet, load_on: StartLoad, options: dict[str, Any]) -> None:
    """The old master goes on for ten seconds."""
    load = load_on(sentinels, NAMES, **options)
    await load.begin()
    new = sentinels.failover()
    await sentinels.failed_over(new)
    await sentinels.settled()
    healed = time.monotonic()
    await load.flows()
    judge(await load.end(), load, [healed], 0.0 if options else WINDOW)
    nothing_left(sentinels)


@pytest.mark.parametrize("options", [PLAIN, REPLICATED])
async def test_the_master_is_killed(own_sentinels: SentinelSet, load_on: StartLoad, options: dict[str, Any]) -> None:
    """And comes back as a replica."""
    load = load_on(own_sentinels, NAMES, **options)
    await load.begin()
    old, new = own_sentinels.servers
    own_sentinels.kill(old)
    await own_sentinels.failed_over(new)
    own_sentinels.restart(old)
    await own_sentinels.settled()
    healed = time.monotonic()
    await load.flows()
    judge(await load.end(), load, [healed], 0.0 if options else WINDOW)
    nothing_left(own_sentinels)


@pytest.mark.parametrize("options", [PLAIN, REPLICATED])
async def test_the_old_master_wakes(own_sentinels: SentinelSet, load_on: StartLoad, options: dict[str, Any]) -> None:
    """It was frozen, and still takes itself for the master."""
    load = load_on(own_sentinels, NAMES, **options)
    await load.begin()
    old, new = own_sentinels.servers
    own_sentinels.freeze(old)
    await own_sentinels.failed_over(new)
    if not options:
        await load.flows()
    own_sentinels.thaw(old)
    await own_sentinels.settled()
    healed = time.monotonic()
    await load.flows()
    judge(await load.end(), load, [healed], 0.0 if options else WINDOW)
    nothing_left(own_sentinels)
