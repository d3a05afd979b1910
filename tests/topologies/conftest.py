"""Processes under load."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiolock.testing.server import RedisServer
from tests.crossproc.conftest import Crew
from tests.support import redis_cli
from tests.support.cluster import DEBUGGING, Cluster, start_cluster
from tests.support.sentinels import SentinelSet

from .load import Load

StartLoad = Callable[..., Load]


@pytest.fixture
def load_on(tmp_path: Path) -> Iterator[StartLoad]:
    """Makes a `Load` on a cluster, on the servers of Sentinels, or at a URL."""
    crews: list[Crew] = []

    def make(where: Cluster | SentinelSet | str, names: dict[str, tuple[float, int]], **options: Any) -> Load:
        crews.append(Crew(json.dumps(_place(where)), tmp_path, "tests.topologies.worker"))
        return Load(crews[-1], names, **options)

    yield make
    for crew in crews:
        crew.close()


def _place(where: Cluster | SentinelSet | str) -> dict[str, Any]:
    if isinstance(where, Cluster):
        return {"urls": where.urls[:2]}
    if isinstance(where, SentinelSet):
        return {"sentinels": where.addresses, "service": where.service}
    return {"url": where}


@pytest.fixture
def splitting_cluster(redis_server: RedisServer) -> Iterator[Cluster]:
    """A cluster of which single masters can be isolated."""
    with redis_cli.client(redis_server.url) as link:
        if redis_cli.version_of(link) < (7, 0):
            pytest.skip("it cannot be isolated")
    with start_cluster(node_timeout=1.5, options=DEBUGGING) as cluster:
        if not cluster.can_isolate:
            pytest.skip("it cannot be isolated")
        yield cluster
