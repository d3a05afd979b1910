"""No server outlives its tests, also if they are killed."""

from __future__ import annotations

import pytest

from tests.databases.test_leftovers import gone, kill, started

pytestmark = pytest.mark.slow
USES = """
import sys
from tests.support.etcd import Etcd
with Etcd(3) as cluster:
    print(cluster.members[-1]._process.pid, cluster.folder, flush=True)
    sys.stdin.read()
"""


def test_who_has_a_cluster_is_killed() -> None:
    """Kept by keep(): each `.pid`."""
    process, server, folder, _ = started(USES)
    kill(process)
    assert gone(server, folder)
