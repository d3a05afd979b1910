"""The cluster that the tests start does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.support.cluster import SLOTS, Cluster
from tests.support.folder import Folder
from tests.support.scripting import wait_until

pytestmark = pytest.mark.takes_long

ROOT = Path(__file__).parents[2]


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_names_are_spread_over_the_masters(cluster: Cluster) -> None:
    assert len(cluster.masters) == 3
    for master in cluster.masters:
        one, other = cluster.names_on(master, 2)
        assert cluster.slot(one) != cluster.slot(other)
        assert cluster.master_of(one) is master
        assert master.text("SET", f"key:{{{one}}}", 1) == "OK"
    assert len(cluster.keys()) == 3
    with pytest.raises(redis.exceptions.ResponseError, match=r"^(MOVED )?\d+ 127"):
        cluster.masters[0].ask("GET", cluster.names_on(cluster.masters[1])[0])
    assert cluster.clients() == 0
    with redis.Redis.from_url(cluster.urls[4]) as client:
        client.ping()
        assert cluster.clients() == 1


@pytest.mark.parametrize("how", ["", "FORCE"])
async def test_a_replica_takes_its_masters_place(cluster: Cluster, how: str) -> None:
    old = cluster.masters[0]
    old.ask("SET", *cluster.names_on(old), 1)
    new = cluster.failover(old, how)  # type: ignore[arg-type]
    await cluster.failed_over(old, new)
    assert new in cluster.masters
    assert cluster.replica_of(new) is old
    assert len(cluster.keys()) == 1


async def test_a_master_that_is_killed_is_replaced_and_comes_back(own_cluster: Cluster) -> None:
    old = own_cluster.masters[0]
    new = own_cluster.replica_of(old)
    old.kill()
    await own_cluster.until(lambda: new.role == "master" and own_cluster.ok())
    assert new in own_cluster.masters
    own_cluster.calm()
    assert own_cluster.replica_of(new) is old


def test_a_slot_moves_at_once_or_step_by_step(masters_only: Cluster) -> None:
    one, two, _ = masters_only.masters
    (name,) = masters_only.names_on(one)
    keys = [f"{number}:{{{name}}}" for number in range(3)]
    for key in keys:
        one.ask("SET", key, 1, "PX", 60_000)
    steps = masters_only.moving(masters_only.slot(name), two)
    assert [next(steps), next(steps), next(steps) in keys] == ["importing", "migrating", True]
    with pytest.raises(redis.exceptions.ResponseError, match=r"^(ASK )?\d+ 127"):
        one.ask("GET", f"absent:{{{name}}}")
    assert list(steps)[-2:] == ["assigned", "known"]
    assert masters_only.master_of(name) is two
    assert all(two.ask("PTTL", key) > 0 for key in keys)
    masters_only.move_slot(masters_only.slot(name), one)
    assert masters_only.master_of(name) is one
    assert len(masters_only.keys()) == 3


def test_calm_ends_a_move_in_the_middle(masters_only: Cluster) -> None:
    one, two, _ = masters_only.masters
    (name,) = masters_only.names_on(one)
    steps = masters_only.moving(masters_only.slot(name), two)
    assert [next(steps), next(steps)] == ["importing", "migrating"]
    masters_only.calm()
    with pytest.raises(redis.exceptions.ResponseError, match=r"^(MOVED )?\d+ 127"):
        two.ask("SET", name, 1)
    assert one.text("SET", name, 1) == "OK"
    assert sum(last - first + 1 for first, last, _ in masters_only._map(one)) == SLOTS


def test_a_killed_process_leaves_nothing_behind() -> None:
    """Neither the servers nor their folder."""
    orphan = """
import os
from tests.support.cluster import start_cluster
with start_cluster(masters=1, replicas=0) as cluster:
    (node,) = cluster.nodes
    print(node.server.pid, node.link.config_get("dir")["dir"], flush=True)
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", orphan], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    pid, folder = done.stdout.split()
    wait_until(lambda: not running(int(pid)))
    wait_until(lambda: not Path(folder).parent.exists())


def test_a_folder_is_removed() -> None:
    with Folder() as path:
        (path / "file").touch()
    assert not path.exists()
