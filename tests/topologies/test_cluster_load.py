"""A cluster whose masters die, change and lose slots, under load: who was inside, in which order, and who waited."""

from __future__ import annotations

import time
from typing import Any, Literal

import pytest

from tests.support import locks
from tests.support.cluster import Cluster
from tests.support.scripting import wait_until

from .conftest import StartLoad
from .load import BUSY, LONG, PLAIN, REPLICATED
from .verdict import WINDOW, judge

pytestmark = pytest.mark.takes_long


def names_on(cluster: Cluster, number: int = 0) -> dict[str, tuple[float, int]]:
    """Two names of one master, one of them busy, and a busy one of each other."""
    busy, long = cluster.names_on(cluster.masters[number], 2)
    others = {cluster.names_on(master)[0]: BUSY for master in cluster.masters if master is not cluster.masters[number]}
    return {busy: BUSY, long: LONG, **others}


def nothing_left(cluster: Cluster, processes: int = 0) -> None:
    """No key is held, and no connection is left of processes that have ended."""
    for master in cluster.masters:
        assert locks.nothing_held(master), master.ask("KEYS", "*")
    wait_until(lambda: cluster.clients() == processes)


@pytest.mark.parametrize("options", [PLAIN, REPLICATED])
async def test_a_master_is_killed(own_cluster: Cluster, load_on: StartLoad, options: dict[str, Any]) -> None:
    """And comes back as a replica."""
    load = load_on(own_cluster, names_on(own_cluster), **options)
    await load.begin()
    old = own_cluster.masters[0]
    new = own_cluster.replica_of(old)
    old.kill()
    await own_cluster.until(lambda: new.role == "master" and own_cluster.ok())
    if options:
        old.restart()
        await own_cluster.until(own_cluster.ok)
    healed = time.monotonic()
    await load.flows()
    history = await load.end()
    judge(history, load, [healed], 0.0 if options else WINDOW)
    nothing_left(own_cluster)


@pytest.mark.parametrize("options", [PLAIN, REPLICATED])
@pytest.mark.parametrize("how", ["", "FORCE"], ids=["graceful", "force"])
async def test_failovers_are_ordered(
    cluster: Cluster,
    load_on: StartLoad,
    how: Literal["", "FORCE"],
    options: dict[str, Any],
) -> None:
    names = names_on(cluster)
    load = load_on(cluster, names, **options)
    await load.begin()
    heals = []
    for _ in range(3):
        old = cluster.master_of(next(iter(names)))
        new = cluster.failover(old, how)
        await cluster.failed_over(old, new)
        heals.append(time.monotonic())
        await load.flows()
    judge(await load.end(), load, heals, 0.0 if options else WINDOW)
    nothing_left(cluster)


@pytest.mark.parametrize("options", [PLAIN, REPLICATED])
async def test_every_slot_moves_back_and_forth(cluster: Cluster, load_on: StartLoad, options: dict[str, Any]) -> None:
    """Nothing is lost: not even without replicas are two inside."""
    names = names_on(cluster)
    load = load_on(cluster, names, **options)
    await load.begin()
    home, away, _ = cluster.masters
    here = [name for name in names if cluster.master_of(name) is home]
    heals = []
    for target in (away, home, away, home):
        for name in here:
            for _ in cluster.moving(cluster.slot(name), target):
                await load.flow(0.02)
        heals.append(time.monotonic())
        await load.flows()
    judge(await load.end(), load, heals, 0.0)
    nothing_left(cluster)


@pytest.mark.parametrize("options", [PLAIN, REPLICATED])
async def test_an_isolated_master_still_answers(
    splitting_cluster: Cluster, load_on: StartLoad, options: dict[str, Any]
) -> None:
    """Until the node timeout is over; it hears of its replacement only when it can talk to the others again."""
    load = load_on(splitting_cluster, names_on(splitting_cluster), **options)
    await load.begin()
    old = splitting_cluster.masters[0]
    new = splitting_cluster.isolate(old)
    await splitting_cluster.until(lambda: new.role == "master")
    if not options:
        await load.flows()
    await splitting_cluster.until(lambda: "cluster_state:fail" in old.text("CLUSTER", "INFO"))
    splitting_cluster.rejoin(old)
    await splitting_cluster.until(splitting_cluster.ok)
    healed = time.monotonic()
    await load.flows()
    judge(await load.end(), load, [healed], 0.0 if options else 1.5 + WINDOW)
    nothing_left(splitting_cluster)
