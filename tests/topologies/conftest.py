"""Processes under load."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crossproc.conftest import Crew
from tests.support.cluster import Cluster
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
